// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// unclaimed are pods' addresses that stand in Endpoints, and that no slice and no
// record ascribes to a cluster: of a change, Endpoints were written and the process
// ended before the slices were. As long as a member has not been seen whole, such an
// address may be its, and stays. What a member that has been seen says of it counts.
func unclaimed(shares []*share, current Current, settings Settings) (out []syncer.Endpoint) {
	standing := current.ours()
	if !settings.WriteSlices || standing.Owners.rest != "" || !slices.ContainsFunc(shares, func(s *share) bool { return s.Expected }) {
		return nil
	}
	claimed := claims(shares, current)
	for e := range standing.all() {
		if standing.Owners.of(e.Addr) == "" && !claimed[e.Addr] && e.Target.UID != "" && e.Addr.IsValid() {
			out = append(out, e)
		}
	}
	return out
}

// claims are the addresses of our slices and of all that the members said, whatever
// became of it in the merge.
func claims(shares []*share, current Current) map[netip.Addr]bool {
	claimed := map[netip.Addr]bool{}
	for _, s := range current.slicesOf(current.Vouched) {
		for e := range s.all() {
			claimed[e.Addr] = true
		}
	}
	for _, s := range shares {
		for i := range s.Contribution.Endpoints {
			claimed[s.Contribution.Endpoints[i].Addr] = true
		}
	}
	return claimed
}
