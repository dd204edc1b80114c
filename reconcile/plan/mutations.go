// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Mutations are the differences between what was written of an object last and what the
// server, or a webhook that edits what it is sent, made of it. Another try would end the
// same, so they are no reason for one. They are known from the answer to the write, and
// recorded in AnnotationMutated, so that the next process knows them, too. Addresses, their
// ports, whether they are ready and what they are of are never among them, whoever wrote the
// record.
type Mutations struct {
	// known are the paths of fields: with a plus where nothing was wished, with a minus where
	// all of that kind goes, otherwise with a hash of both values. Sorted.
	known []string
	// unsteady: each write comes out otherwise, so that recording it leads nowhere.
	unsteady bool
}

// maxMutations bounds the record of one object, in bytes.
const maxMutations = 4096

// ReadMutations reads the record.
func ReadMutations(annotations map[string]string) Mutations {
	if text := annotations[AnnotationMutated]; text != "" {
		return Mutations{known: strings.Split(text, ",")}
	}
	return Mutations{}
}

// Equal reports whether both are the same.
func (m *Mutations) Equal(o *Mutations) bool {
	return m.unsteady == o.unsteady && slices.Equal(m.known, o.known)
}

// Among are those that are known already: an edit by somebody else tells nothing of the server.
func (m *Mutations) Among(known *Mutations) Mutations {
	return Mutations{slices.DeleteFunc(slices.Clone(m.known), func(item string) bool { return !known.has(item) }), known.unsteady}
}

func (m *Mutations) has(item string) bool { return slices.Contains(m.known, item) }

// mutations is the record that an object should carry.
func (m *Meta) mutations() string {
	if text := strings.Join(m.Mutations.known, ","); !m.Mutations.unsteady && len(text) <= maxMutations {
		return text
	}
	return m.Annotations[AnnotationMutated]
}

// Unrecorded reports whether the record has to be written for the next process.
func (m *Meta) Unrecorded() bool { return m.mutations() != m.Annotations[AnnotationMutated] }

// wished reports whether a label that stands is of ours.
func (m *Meta) wished(label string) bool { return !m.Mutations.has("+metadata.labels[" + label + "]") }

// noted are wished annotations with the record of what the server makes of a wish.
func (m *Meta) noted(wanted map[string]string) map[string]string {
	text := m.mutations()
	if text == "" {
		return wanted
	}
	out := maps.Clone(wanted)
	if out == nil {
		out = map[string]string{}
	}
	out[AnnotationMutated] = text
	return out
}

// Answered notes in an object, as the answer to the action shows it, what the server made
// of the wish. owner is the UID of the Service that a slice was to have. It reports false
// where more differs than what is noted: the addresses, their ports, their state, what they
// are of, or the selector.
func (a *Action) Answered(service *CurrentService, endpoints *CurrentEndpoints, slice *CurrentSlice, owner string) (taken bool) {
	var m *Meta
	var items []string
	collect := comparison(func(item string) bool { items = append(items, item); return true })
	switch {
	case service != nil && a.Service != nil:
		m, taken = &service.Meta, len(service.Selector) == 0 && samePorts(collect.service(a.Service, *service).Ports, a.Service.Ports)
	case endpoints != nil && a.Endpoints != nil:
		m, taken = &endpoints.Meta, sameSubsets(collect.endpoints(a.Endpoints, *endpoints).Subsets, a.Endpoints.Subsets)
	case slice != nil && a.Slice != nil:
		made := collect.slice(a.Slice, owner, *slice)
		m, taken = &slice.Meta, !made.Malformed && slices.Equal(made.Ports, a.Slice.Ports) && equalEndpoints(made.Endpoints, a.Slice.Endpoints) &&
			maps.Equal(made.Labels, a.Slice.Labels)
	}
	if m == nil || m.Claim < ClaimMarked {
		return true
	}
	slices.Sort(items)
	items = slices.Compact(items)
	recorded := m.Mutations.known
	switch {
	case a.reduces: // all else was as it stood
		m.Mutations = a.Standing.Mutations
	case len(items) == 0 || slices.ContainsFunc(items, func(item string) bool { return !m.Mutations.has(item) }):
		recording := a.Standing != nil && a.Standing.Unrecorded()
		m.Mutations = Mutations{items, recording && len(items) > 0 && !slices.Equal(items, recorded)}
	}
	return taken
}

func equalEndpoints(a, b []syncer.Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b syncer.Endpoint) bool { return a.Equal(&b) })
}

// mutated reports whether the server makes something else of anything that is written.
func (o *Current) mutated() bool {
	return o.some(func(m *Meta) bool { return m.Owned && len(m.Mutations.known) > 0 })
}

// asWished is what stands without what the server makes of each such wish.
func (o *Current) asWished(desired *Desired) *Current {
	out := *o
	owner := ""
	if s := out.Service; s != nil && s.Owned {
		owner = s.UID
		out.Service = new(comparison(s.Mutations.has).service(&desired.Service, *s))
	}
	if e := out.Endpoints; e != nil && e.Owned {
		out.Endpoints = new(comparison(e.Mutations.has).endpoints(&desired.Endpoints, *e))
	}
	out.Slices = slices.Clone(o.Slices)
	for i := range out.Slices {
		s := &out.Slices[i]
		at := slices.IndexFunc(desired.Slices, func(w SliceSpec) bool { return w.Name == s.Meta.Name })
		if s.Owned && at >= 0 {
			*s = comparison(s.Mutations.has).slice(&desired.Slices[at], cmp.Or(owner, s.OwnerUID), *s)
		}
	}
	return &out
}

// unmutated are slices without what the server has made of them, as far as Endpoints tell what
// was wished.
func (o *Current) unmutated(sliced []*CurrentSlice) []*CurrentSlice {
	if !slices.ContainsFunc(sliced, func(s *CurrentSlice) bool { return len(s.Mutations.known) > 0 }) {
		return sliced
	}
	plain, standing := map[netip.Addr]syncer.Endpoint{}, slices.Collect(o.ours().all())
	for _, e := range standing {
		plain[e.Addr] = e
	}
	out := make([]*CurrentSlice, len(sliced))
	for i, s := range sliced {
		wish := SliceSpec{Slice: s.Slice, Labels: s.Labels, Annotations: s.Annotations}
		wish.Ports, wish.Endpoints = s.wishedPorts(standing), slices.Clone(s.Endpoints)
		for j := range wish.Endpoints {
			e := &wish.Endpoints[j]
			e.Zone = ""
			if p, ok := plain[e.Addr]; ok {
				e.NodeName, e.Hostname, e.Target = p.NodeName, p.Hostname, p.Target
			}
		}
		out[i] = new(comparison(s.Mutations.has).slice(&wish, s.OwnerUID, *s))
	}
	return out
}

// mutations reports them, but for labels that nobody wished: those are like annotations of
// others.
func (o *Current) mutations() []Conflict {
	fields := map[string]bool{}
	for kind, m := range o.objects {
		for _, item := range m.Mutations.known {
			if path, _, _ := strings.Cut(strings.TrimLeft(item, "+-"), ":"); m.Owned && !strings.HasPrefix(item, "+metadata.labels") {
				fields[string(kind)+" "+path] = true
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return []Conflict{{Replica: o.Key, Reason: ConflictMutated, Message: fmt.Sprintf(
		"a webhook of the ingress cluster makes something else of what is written (%.500s), which is left so: let it pass over what has label %s: %s",
		joined(fields), LabelManagedBy, ManagedBy)}}
}
