// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Pods may be out of sight while other objects of the member are seen. What is known of them
// stays, as far as nothing that is seen speaks against it: a pod whose address a live one
// shows is dead, whoever hides that.

// hidden are pods of namespaces that are left out, by the addresses that they were shown with.
type hidden struct {
	namespaces []string // sorted
	byAddr     map[netip.Addr][]syncer.Key
	// fresh is true until all that is in sight was held against them: streams are not in step,
	// and the address of one that died may have been shown before its namespace was left out.
	fresh bool
}

// hides reports whether there may be any.
func (s *State) hides() bool {
	if len(s.leftOut.last[Pods])+len(s.reach.watches[Pods].leftOut) > 0 {
		return true
	}
	s.hidden = hidden{}
	return false
}

// leavesOut are the namespaces whose pods neither the stream shows nor the last list. A list
// on its way is newer than the stream.
func (s *State) leavesOut() []string {
	all := s.leftOut.names(Pods)
	if s.lists[Pods] == nil {
		all = append(all, s.reach.watches[Pods].leftOut...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hiddenAt are the pods out of sight that had an address when they were shown last.
func (s *State) hiddenAt(addr netip.Addr) []syncer.Key {
	namespaces := s.leavesOut()
	if !slices.Equal(namespaces, s.hidden.namespaces) {
		s.hidden = hidden{namespaces, map[netip.Addr][]syncer.Key{}, true}
		for _, namespace := range namespaces {
			for p := range s.store.PodsIn(namespace) {
				s.hide(p)
			}
		}
	}
	return s.hidden.byAddr[addr]
}

// hide files a pod under its addresses, if it is out of sight.
func (s *State) hide(p *syncer.Pod) {
	if !slices.Contains(s.hidden.namespaces, p.Namespace) {
		return
	}
	for _, addr := range addressesOf(p) {
		if !slices.Contains(s.hidden.byAddr[addr], p.Key) {
			s.hidden.byAddr[addr] = append(s.hidden.byAddr[addr], p.Key)
		}
	}
}

// missHidden has pods out of sight be absent whose address another one shows, at a revision
// (0: unknown), unless they were shown with it later, or both share that of their node.
func (s *State) missHidden(now time.Time, addr netip.Addr, by *syncer.Pod, rv uint64) {
	for _, key := range s.hiddenAt(addr) {
		p := s.store.Pod(key)
		if p == nil || key == by.Key || !store.HasAddress(p, addr) || p.HostNetwork && by.HostNetwork {
			continue
		}
		if held, _ := s.store.PodRevision(key); rv == 0 || held <= rv {
			l := (*pods)(nil).lost(s, p)
			l.held = held
			s.lacks(now, l, true)
		}
	}
}

// checkHidden looks whether others have the addresses of pods that are out of sight since the
// last time.
func (s *State) checkHidden(now time.Time, out *Effects) {
	if !s.hides() {
		return
	}
	s.hiddenAt(netip.Addr{})
	if !s.hidden.fresh {
		return
	}
	s.hidden.fresh = false
	for _, p := range s.store.Pods() {
		if slices.ContainsFunc(addressesOf(p), func(addr netip.Addr) bool { return s.hidden.byAddr[addr] != nil }) {
			s.reclaim(now, p, &pods{}, out)
		}
	}
}
