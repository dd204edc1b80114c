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

// Share is what the member gives to a replica: what is computed from Inputs, with what is
// kept as it stands beside that.
type Share struct {
	Inputs []store.Input
	// Unseen is true where what stands of the member is to be kept, without the
	// addresses in Gone, because nothing better is known: no Service speaks for it.
	Unseen bool
	Gone   []netip.Addr
}

// Share returns what the member gives to a replica now.
func (s *State) Share(replica syncer.Key) Share {
	var out Share
	if s.synced {
		out.Inputs = slices.DeleteFunc(s.store.Inputs(replica), func(in store.Input) bool { return s.isUnread(in.Source()) })
		for i := range out.Inputs {
			s.damped(&out.Inputs[i])
		}
	}
	r := s.baseline.replicas[replica]
	if r == nil {
		out.Unseen = len(out.Inputs) == 0 && s.leavesIdle(replica)
		return out
	}
	if !slices.ContainsFunc(out.Inputs, func(in store.Input) bool { return !in.Pending() }) {
		out.Unseen, out.Gone = true, r.gone()
		return out
	}
	kept := r.kept()
	keeps := len(kept) > 0
	for i := range out.Inputs {
		in := &out.Inputs[i]
		if keeps {
			in.Stood(s.stoodIn(r, in.Source()))
		}
		if in.Pending() {
			in.Keep(kept)
			kept = nil
		}
	}
	if len(kept) > 0 {
		out.Inputs[0].Keep(kept)
	}
	return out
}

// leavesIdle reports whether a replica in which nothing stands ready is to be left as it is.
func (s *State) leavesIdle(replica syncer.Key) bool {
	sources, idle := s.baseline.idle[replica]
	return idle && (!s.synced || slices.ContainsFunc(sources, func(source syncer.Key) bool { return s.isUnlisted(source.Namespace) }))
}

// stoodIn are the objects that hand-written endpoints of a Service stood in: unknown where
// those of another may be kept that gives nothing any more.
func (s *State) stoodIn(r *baselineReplica, source syncer.Key) []string {
	for of := range r.written {
		if s.store.Service(of) == nil {
			return nil
		}
	}
	return r.written[source]
}

// kept are the endpoints that stand and that nothing has settled, beside what the member
// gives.
func (r *baselineReplica) kept() (kept []syncer.Endpoint) {
	for _, e := range r.open() {
		if r.judged || e.byHand || !r.given[e.address()] {
			kept = append(kept, e.endpoint)
		}
	}
	return kept
}

// gone are the addresses that stood, or were given since, and are known to be gone.
func (r *baselineReplica) gone() (gone []netip.Addr) {
	stays := map[netip.Addr]bool{}
	for _, e := range r.open() {
		stays[e.endpoint.Addr] = true
	}
	for _, e := range r.endpoints {
		if e.dropped && !stays[e.endpoint.Addr] {
			gone = append(gone, e.endpoint.Addr)
		}
	}
	for a := range r.withdrawn {
		if !stays[a.Addr] {
			gone = append(gone, a.Addr)
		}
	}
	slices.SortFunc(gone, netip.Addr.Compare)
	return slices.Compact(gone)
}

// BaselineReplicas returns the replicas of which something is kept because it stands.
func (s *State) BaselineReplicas() []syncer.Key {
	return slices.SortedFunc(maps.Keys(s.baseline.replicas), syncer.Key.Compare)
}
