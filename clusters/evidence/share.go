// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Share is what the member gives to a replica: what is computed from Inputs, and beside
// that endpoints that are kept as they stand.
type Share struct {
	Inputs []store.Input
	Kept   []syncer.Endpoint
	// Unseen is true where what stands of the member is to be kept, without the
	// addresses in Gone, because nothing better is known.
	Unseen bool
	Gone   []netip.Addr
}

// Share returns what the member gives to a replica now.
func (s *State) Share(replica syncer.Key) Share {
	var out Share
	if s.synced {
		out.Inputs = s.store.Inputs(replica)
		for i := range out.Inputs {
			s.damped(&out.Inputs[i])
		}
	}
	r := s.standing.replicas[replica]
	if r == nil {
		return out
	}
	left := r.open()
	out.Unseen = !s.synced || !r.judged || len(out.Inputs) == 0
	stays := map[netip.Addr]bool{}
	for _, e := range left {
		stays[e.endpoint.Addr] = true
		if !out.Unseen {
			out.Kept = append(out.Kept, e.endpoint)
		}
	}
	for _, e := range r.endpoints {
		if e.dropped && !stays[e.endpoint.Addr] {
			out.Gone = append(out.Gone, e.endpoint.Addr)
		}
	}
	for addr := range r.withdrawn {
		if out.Unseen && !stays[addr] {
			out.Gone = append(out.Gone, addr)
		}
	}
	slices.SortFunc(out.Gone, netip.Addr.Compare)
	return out
}

// StandingReplicas returns the replicas of which something is kept because it stands.
func (s *State) StandingReplicas() []syncer.Key {
	return slices.SortedFunc(maps.Keys(s.standing.replicas), syncer.Key.Compare)
}
