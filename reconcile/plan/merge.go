// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// Merge unites what all members give to one replica. The result does not depend
// on the order of the contributions, only on their content: the oldest Service
// (then the first cluster by name) wins where they disagree, so that a restart
// decides alike. current supplies the slices that stand, because packing keeps
// endpoints where they are.
//
// Without a contribution there is no replica: callers pass nil to Diff instead.
func Merge(key syncer.Key, contributions []Contribution, current Current, settings Settings) Desired {
	given := contributions
	for {
		r, shares := merge(key, contributions, current, settings)
		rest := withoutSpentOrphans(contributions, shares)
		if len(rest) == len(contributions) {
			r.given, r.shares = given, shares
			return r
		}
		contributions = rest
		Steer(key, contributions, settings.Policy) // the oldest may be another one
	}
}

// merge is one round of Merge, with what became of the shares.
func merge(key syncer.Key, contributions []Contribution, current Current, settings Settings) (Desired, []*share) {
	r := Desired{Key: key}
	shares, strangers := oneReplica(key, sharesOf(contributions))
	if len(shares) == 0 {
		return r, nil
	}
	kinds := settings.kinds()
	for _, s := range shares {
		s.restrict(kinds)
	}
	u := unite(key, shares)
	if len(shares) > 1 {
		for _, s := range shares {
			s.fit(len(u.ports) > 0)
		}
	}
	r.Held = drain(shares, kinds, current)
	failOver(shares, kinds)
	r.Conflicts = slices.Concat(strangers, misread(key, shares), u.conflicts, u.guessed(), headless(key, shares), separate(key, shares))
	r.Held = append(r.Held, demoteStale(shares, kinds, current)...)
	slices.SortFunc(r.Conflicts, compareConflicts)
	for _, s := range shares {
		for _, rejection := range s.Rejected {
			r.Rejected = append(r.Rejected, ClusterRejection{Cluster: s.Cluster, Rejection: rejection})
		}
	}
	r.Service = mergeService(shares, u, settings)
	if settings.WriteEndpoints {
		stay, of := unclaimed(shares, current, settings)
		if len(stay) > 0 {
			r.Held = append(r.Held, Held{of, HeldUnclaimed})
		}
		r.Endpoints = mergeEndpoints(key, shares, stay, settings)
	}
	if settings.WriteSlices {
		r.Slices = mergeSlices(key, shares, current, settings)
		r.Conflicts = append(r.Conflicts, occupied(key, r.Slices, current)...)
	}
	r.Kept = keptOrphans(shares)
	return r, shares
}

func mergeService(shares []*share, u union, settings Settings) ServiceSpec {
	spec := ServiceSpec{
		Labels: settings.owned(shares[0].Service.Labels),
		Record: Record{Sources: recordOf(shares, u)},
	}
	spec.Annotations, spec.Record.Passed = passedAnnotations(shares[0].Service.Annotations, settings.PassAnnotation)
	spec.Annotations[AnnotationReplica] = u.key.String()
	for _, p := range u.ports {
		port := p.ServicePort
		port.Target = p.target(shares)
		spec.Ports = append(spec.Ports, port)
	}
	return spec
}

// headless reports members that want a virtual IP where the oldest has none, or
// the reverse. A replica never has one, so nothing else follows from it.
func headless(key syncer.Key, shares []*share) (conflicts []Conflict) {
	word := func(s *share) string {
		if s.Service.Headless() {
			return "headless"
		}
		return "not headless"
	}
	var winner *share
	for _, s := range shares {
		switch {
		case s.Unseen: // what stands does not tell
		case winner == nil:
			winner = s
		case s.Service.Headless() != winner.Service.Headless():
			one, older := places(s, winner)
			conflicts = append(conflicts, Conflict{Replica: key, Reason: ConflictHeadless, Cluster: s.Cluster, Message: fmt.Sprintf(
				"the Service is %s in %s and %s in %s, which is older", word(s), one, word(winner), older)})
		}
	}
	return conflicts
}

// mergeEndpoints renders the shares as one Endpoints object. Hand-written ones
// of a single member are taken verbatim; all else is packed anew and limited.
// Addresses of nobody known come with it.
func mergeEndpoints(key syncer.Key, shares []*share, unclaimed []syncer.Endpoint, settings Settings) EndpointsSpec {
	spec := EndpointsSpec{
		Labels:      endpointsLabels(shares[0].Service.Labels, &settings),
		Annotations: map[string]string{AnnotationReplica: key.String()},
		Trigger:     earliest(shares),
	}
	switch s := shares[0]; {
	case len(shares) == 1 && s.verbatim != nil && len(unclaimed) == 0:
		spec.Subsets, spec.Truncated = s.verbatim, s.Truncated
	case len(shares) == 1:
		spec.Subsets = syncer.Subsets(slices.Concat(s.endpoints, unclaimed), s.EndpointsFamily)
		spec.Subsets, spec.Truncated = syncer.Truncate(spec.Subsets, capacity(settings))
	default:
		spec.Subsets = syncer.Subsets(append(endpointsOf(shares), unclaimed...), "")
		spec.Subsets, spec.Truncated = syncer.Truncate(spec.Subsets, capacity(settings))
		// What was left out before a restart cannot be recovered without slices.
		spec.Truncated = spec.Truncated || !settings.WriteSlices && slices.ContainsFunc(shares, func(s *share) bool { return s.Truncated })
	}
	if spec.Truncated {
		spec.Annotations[AnnotationOverCapacity] = OverCapacity
	}
	only := settings.WriteSlices && slices.ContainsFunc(shares, (*share).endpointsOnly)
	if only || !settings.WriteSlices {
		if record := addressRecord(shares, spec.Subsets, only); record != "" {
			spec.Annotations[AnnotationAddresses] = record
		}
	}
	return spec
}

func capacity(settings Settings) int { return cmp.Or(settings.Capacity, syncer.EndpointsCapacity) }

// endpointsOf gathers what belongs into Endpoints: of each share only the family
// that its member's Endpoints carry.
func endpointsOf(shares []*share) []syncer.Endpoint {
	var all []syncer.Endpoint
	for _, s := range shares {
		for _, e := range s.endpoints {
			if s.EndpointsFamily == "" || s.EndpointsFamily == familyOf(e) {
				all = append(all, e)
			}
		}
	}
	return all
}

func familyOf(e syncer.Endpoint) syncer.Family {
	if e.Addr.Is4() {
		return syncer.IPv4
	}
	return syncer.IPv6
}

// earliest is the trigger time of the first of several changes.
func earliest(shares []*share) (trigger time.Time) {
	for _, s := range shares {
		if !s.Trigger.IsZero() && (trigger.IsZero() || s.Trigger.Before(trigger)) {
			trigger = s.Trigger
		}
	}
	return trigger
}

// mergeSlices packs the endpoints of each cluster into slices of its own. A slice
// of somebody else that stands in the way keeps its name, and ours get others.
func mergeSlices(key syncer.Key, shares []*share, current Current, settings Settings) []SliceSpec {
	var specs []SliceSpec
	for _, group := range byCluster(shares) {
		endpoints := group[0].endpoints
		var families []syncer.Family
		for i, s := range group {
			if i > 0 {
				endpoints = slices.Concat(endpoints, s.endpoints)
			}
			for _, family := range s.Families {
				if !slices.Contains(families, family) {
					families = append(families, family)
				}
			}
		}
		first := group[0]
		o := syncer.PackOptions{Service: key, Cluster: first.Cluster, MaxEndpoints: settings.MaxEndpointsPerSlice}
		trigger := earliest(group)
		labels := sliceLabels(first.Service.Labels, &settings, key.Name, first.Cluster)
		annotations := map[string]string{AnnotationReplica: key.String()}
		for _, slice := range syncer.Pack(standingSlices(current, first.Cluster, endpoints), endpoints, families, o) {
			specs = append(specs, SliceSpec{
				Cluster: first.Cluster, Slice: slice, Trigger: trigger, Labels: labels, Annotations: annotations,
			})
		}
	}
	slices.SortFunc(specs, func(a, b SliceSpec) int { return strings.Compare(a.Name, b.Name) })
	return specs
}

// standingSlices are our slices of a cluster, and the mere names of all others:
// of foreign ones and, should somebody have relabelled them, of other clusters'.
func standingSlices(current Current, cluster string, wanted []syncer.Endpoint) []syncer.Slice {
	out := make([]syncer.Slice, len(current.Slices), len(current.Slices)+len(current.Occupied))
	for i := range current.Slices {
		o := &current.Slices[i]
		if o.Owned && o.Cluster == cluster {
			out[i] = o.Slice
			out[i].Ports = o.wishedPorts(wanted)
		}
		out[i].Name = o.Meta.Name
	}
	for _, name := range current.Occupied {
		out = append(out, syncer.Slice{Name: name})
	}
	return out
}

// occupied reports slices of others that have a name which one of ours would have.
func occupied(key syncer.Key, specs []SliceSpec, current Current) (conflicts []Conflict) {
	for _, name := range current.Occupied {
		stem, number := stemOf(name)
		at := slices.IndexFunc(specs, func(s SliceSpec) bool {
			ours, n := stemOf(s.Name)
			return ours == stem && n > number
		})
		if at >= 0 {
			conflicts = append(conflicts, Conflict{Replica: key, Reason: ConflictForeign, Message: fmt.Sprintf(
				"EndpointSlice %s/%s stands and is not Tributary's (label %s): %s is written in its place; delete it unless it is meant",
				key.Namespace, name, LabelSliceManagedBy, specs[at].Name)})
		}
	}
	return conflicts
}

// stemOf splits a slice's name into what all of its group share and its number, -1
// where there is none.
func stemOf(name string) (stem string, number int) {
	at := strings.LastIndexByte(name, '-')
	number, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil {
		return name, -1
	}
	return name[:at], number
}

// byCluster groups shares, clusters in the order of their oldest share.
func byCluster(shares []*share) [][]*share {
	var groups [][]*share
	for _, s := range shares {
		at := slices.IndexFunc(groups, func(g []*share) bool { return g[0].Cluster == s.Cluster })
		if at < 0 {
			groups = append(groups, []*share{s})
			continue
		}
		groups[at] = append(groups[at], s)
	}
	return groups
}

func compareConflicts(a, b Conflict) int {
	return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)),
		strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Message, b.Message))
}

// places says where two shares come from: of one member, their Services too.
func places(a, b *share) (string, string) {
	if a.Cluster != b.Cluster {
		return a.Cluster, b.Cluster
	}
	return a.Source.String() + " of " + a.Cluster, b.Source.String() + " of " + b.Cluster
}

func joined(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
