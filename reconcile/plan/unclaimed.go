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
// ended before the slices were; or slices were, and Endpoints were refused. As long as a
// member has not been seen whole, such an address may be its, and stays; of is the first
// such member. What a member that has been seen says of it counts.
func unclaimed(shares []*share, current Current, settings Settings) (stay []syncer.Endpoint, of string) {
	record := current.ours().Owners
	at := slices.IndexFunc(shares, func(s *share) bool { return s.Expected })
	if !settings.WriteSlices || record.rest != "" || at < 0 {
		return nil, ""
	}
	told := map[netip.Addr]bool{} // whatever became of it in the merge
	for _, s := range shares {
		for i := range s.Contribution.Endpoints {
			told[s.Contribution.Endpoints[i].Addr] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(current.shares().unclaimed), func(e syncer.Endpoint) bool {
		return told[e.Addr] || e.Target.UID == "" || record.of(e.Addr) != ""
	}), shares[at].Cluster
}
