// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// freeze returns what stays of a cluster's share when nothing new of it is
// accepted: what stands and is still wanted, and is as ready as both say.
func freeze(cluster string, contributions []Contribution, current Current) []Contribution {
	var wanted []Contribution
	var kept []syncer.Endpoint
	stands := current.standing(cluster)
	for _, c := range contributions {
		if c.Cluster != cluster || c.Service == nil {
			continue
		}
		wanted = append(wanted, c)
		for i := range c.Endpoints {
			if left := asItStands(stands[c.Endpoints[i].Addr], &c.Endpoints[i]); len(left) > 0 {
				kept = append(kept, left...)
				delete(stands, c.Endpoints[i].Addr)
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) })
	out := current.Share(cluster)
	if len(out) == 0 && len(kept) > 0 {
		out = slices.Clone(wanted[:1])
	}
	for i := range out {
		out[i].Endpoints, out[i].Subsets, out[i].Rejected = nil, nil, wanted[0].Rejected
	}
	if len(out) > 0 {
		out[0].Endpoints = kept
	}
	return out
}

// Ending is the plan where nothing of the contributions stands and nothing is accepted: it
// only takes away what stands of others.
func Ending(key syncer.Key, contributions []Contribution, current Current, settings Settings) Plan {
	bare := slices.Clone(contributions)
	for i := range bare {
		bare[i].Endpoints, bare[i].Subsets = nil, nil
	}
	desired := Merge(key, bare, current, settings)
	settings.Apart = true
	whole := Diff(current, &desired, settings)
	return whole.TakingAway(nil)
}

// asItStands is a wanted endpoint in the kinds in which it stands, as ready as both say.
func asItStands(stands []syncer.Endpoint, wanted *syncer.Endpoint) (out []syncer.Endpoint) {
	for _, e := range stands {
		if narrow(&e, kindsOf(wanted)) {
			e.Ready, e.Serving, e.Terminating = e.Ready && wanted.Ready, e.Serving && wanted.Serving, e.Terminating || wanted.Terminating
			out = append(out, e)
		}
	}
	return out
}

const everyKind = syncer.KindEndpoints | syncer.KindEndpointSlices

func kindsOf(e *syncer.Endpoint) syncer.Kinds { return cmp.Or(e.Only, everyKind) }

// narrow restricts an endpoint to some kinds. It returns false where it is in none of them.
func narrow(e *syncer.Endpoint, kinds syncer.Kinds) bool {
	if kinds &= kindsOf(e); kinds == 0 {
		return false
	}
	if e.Only = kinds; kinds == everyKind {
		e.Only = 0
	}
	return true
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
		stands := current.standing(c.Cluster)
		all[at].size += len(c.Endpoints)
		all[at].changed = all[at].changed || slices.ContainsFunc(c.Endpoints, func(e syncer.Endpoint) bool { return stands[e.Addr] == nil })
	}
	slices.SortStableFunc(all, func(a, b suspect) int {
		return cmp.Or(lastOf(!a.changed, !b.changed), cmp.Compare(b.size, a.size), strings.Compare(a.cluster, b.cluster))
	})
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.cluster
	}
	return names
}
