// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// freeze returns what stays of a cluster's share when nothing new of it is
// accepted: what stands and is still wanted, and is as ready as both say.
func freeze(cluster string, contributions []Contribution, current Current) []Contribution {
	var wanted []Contribution
	for i := range contributions {
		if contributions[i].Cluster == cluster && contributions[i].Service != nil {
			wanted = append(wanted, contributions[i])
		}
	}
	kept := standingOf(cluster, wanted, current)
	out := Recover(cluster, current)
	if len(out) == 0 {
		if len(kept) == 0 {
			return nil
		}
		out = slices.Clone(wanted[:1])
	}
	out[0].Endpoints, out[0].Subsets = kept, nil
	for i := range out {
		out[i].Rejected = wanted[0].Rejected
	}
	return out
}

// standingOf returns the wanted endpoints that stand, as they stand.
func standingOf(cluster string, wanted []Contribution, current Current) []syncer.Endpoint {
	stands := standingEndpoints(cluster, current)
	var kept []syncer.Endpoint
	done := map[netip.Addr]bool{}
	for i := range wanted {
		for _, e := range wanted[i].Endpoints {
			if !done[e.Addr] && stands.keep(&e) {
				kept = append(kept, e)
				done[e.Addr] = true
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	return kept
}

// standingSet are the endpoints of a cluster's slices, and all those of our Endpoints.
type standingSet struct {
	sliced, plain map[netip.Addr]syncer.Endpoint
}

// keep turns a wanted endpoint into the one that stands, in the kinds in which it
// stands and as ready as both say. It returns false where it does not stand.
func (s standingSet) keep(e *syncer.Endpoint) bool {
	w := *e
	sliced, inSlices := s.sliced[w.Addr]
	plain, inEndpoints := s.plain[w.Addr]
	inSlices, inEndpoints = inSlices && w.In(syncer.KindEndpointSlices), inEndpoints && w.In(syncer.KindEndpoints)
	switch {
	case !inSlices && !inEndpoints:
		return false
	case !inSlices:
		sliced = plain
	case !inEndpoints:
		sliced.Only = syncer.KindEndpointSlices
	}
	*e = restrained(sliced, &w)
	return true
}

func standingEndpoints(cluster string, current Current) standingSet {
	set := standingSet{map[netip.Addr]syncer.Endpoint{}, map[netip.Addr]syncer.Endpoint{}}
	for _, s := range current.slicesOf(only(cluster)) {
		for e := range s.all() {
			set.sliced[e.Addr] = e
		}
	}
	for e := range current.ours().all() {
		set.plain[e.Addr] = e
	}
	return set
}

// Suspects returns the clusters of the contributions in the order in which one is
// likely to have caused a refusal: those whose endpoints differ from what stands,
// which was accepted once, before the others; of equals the largest first.
func Suspects(contributions []Contribution, current Current) []string {
	type suspect struct {
		cluster string
		changed bool
		size    int
	}
	var all []suspect
	for i := range contributions {
		c := &contributions[i]
		if c.Service == nil || c.Unseen {
			continue
		}
		at := slices.IndexFunc(all, func(s suspect) bool { return s.cluster == c.Cluster })
		if at < 0 {
			at = len(all)
			all = append(all, suspect{cluster: c.Cluster})
		}
		stands := standingEndpoints(c.Cluster, current)
		all[at].size += len(c.Endpoints)
		all[at].changed = all[at].changed || slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool {
			_, inSlices := stands.sliced[e.Addr]
			_, inEndpoints := stands.plain[e.Addr]
			return !inSlices && !inEndpoints
		})
	}
	slices.SortStableFunc(all, func(a, b suspect) int {
		switch {
		case a.changed != b.changed && a.changed:
			return -1
		case a.changed != b.changed:
			return 1
		case a.size != b.size:
			return b.size - a.size
		}
		return strings.Compare(a.cluster, b.cluster)
	})
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.cluster
	}
	return names
}

// restrained is a standing endpoint in the worse of two states.
func restrained(e syncer.Endpoint, wanted *syncer.Endpoint) syncer.Endpoint {
	e.Ready = e.Ready && wanted.Ready
	e.Serving = e.Serving && wanted.Serving
	e.Terminating = e.Terminating || wanted.Terminating
	return e
}
