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
func unclaimed(shares []*share, current Current, settings Settings) []syncer.Endpoint {
	standing := current.Endpoints
	if !settings.WriteSlices || standing == nil || !standing.Owned || !slices.ContainsFunc(shares, func(s *share) bool { return s.Expected }) {
		return nil
	}
	named, rest := parseAddresses(standing.Annotations[AnnotationAddresses])
	if rest != "" {
		return nil
	}
	claimed := claims(shares, current)
	var out []syncer.Endpoint
	add := func(addresses []syncer.Address, ports []syncer.Port, ready bool) {
		for _, a := range addresses {
			if _, known := named[a.Addr]; known || claimed[a.Addr] || a.Target.UID == "" || !a.Addr.IsValid() {
				continue
			}
			out = append(out, syncer.Endpoint{Addr: a.Addr, Ports: ports, Ready: ready, Serving: ready, Only: syncer.KindEndpoints,
				NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target})
		}
	}
	for _, s := range standing.Subsets {
		add(s.Ready, s.Ports, true)
		add(s.NotReady, s.Ports, false)
	}
	return out
}

// claims are the addresses of our slices and of all that the members said, whatever
// became of it in the merge.
func claims(shares []*share, current Current) map[netip.Addr]bool {
	claimed := map[netip.Addr]bool{}
	for i := range current.Slices {
		if s := &current.Slices[i]; s.Owned && current.Vouched(s.Cluster) {
			for j := range s.Endpoints {
				claimed[s.Endpoints[j].Addr] = true
			}
		}
	}
	for _, s := range shares {
		for i := range s.Contribution.Endpoints {
			claimed[s.Contribution.Endpoints[i].Addr] = true
		}
	}
	return claimed
}
