// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Pods may be out of sight while other objects of the member are seen. What is known of them
// stays, as far as nothing that is seen speaks against it: a pod whose address a live one
// shows is dead, whoever hides that. What is not known of them is not taken for nothing: a
// Service that comes to select pods none of which was ever shown ready keeps what its former
// selector gives, and a new one is announced, when its pods were listed.

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

// leavesOut are the namespaces whose pods the stream does not show, nor, where none is open,
// the last list. A list on its way is newer.
func (s *State) leavesOut() []string {
	var all []string
	w, listing := &s.reach.watches[Pods], s.lists[Pods] != nil
	if listing || w.phase != Following {
		all = s.leftOut.names(Pods)
	}
	if !listing {
		all = append(all, w.leftOut...)
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

// isRefused reports whether pods of a namespace may not be read.
func (s *State) isRefused(namespace string) bool {
	return s.reach.watches[Pods].phase == Denied || slices.Contains(s.leavesOut(), namespace)
}

// outOfSight reports whether pods of a namespace may be there that nobody has shown.
func (s *State) outOfSight(namespace string) bool {
	w := &s.reach.watches[Pods]
	return !w.left.IsZero() || !w.troubled.IsZero() || s.crowds[Pods].is || s.isRefused(namespace)
}

// noteUnread notes a new Service whose pods are to be listed before it is announced.
func (s *State) noteUnread(svc *syncer.Service) {
	refused := s.synced && svc.Selector != nil && s.isRefused(svc.Namespace) && s.store.ReadyAs(svc) == 0
	delete(s.selectors, svc.Key)
	if delete(s.unread, svc.Key); !refused && !s.rescoped {
		return
	}
	if s.unread == nil {
		s.unread = map[syncer.Key]bool{}
	}
	s.unread[svc.Key] = true
}

// keepsSelector reports whether a Service goes on by what it went by, though it has another
// selector now: whether that selects any pod that is ready, nobody knows.
func (s *State) keepsSelector(svc *syncer.Service) bool {
	former, placed := s.store.Selector(svc.Key)
	return s.synced && placed && svc.Selector != nil && !sameSelector(former, svc.Selector) &&
		(s.selectors[svc.Key] || s.outOfSight(svc.Namespace)) && s.mayGive(svc.Key) && s.store.ReadyAs(svc) == 0
}

// mayGive reports whether a Service has ready endpoints, for all that is known.
func (s *State) mayGive(service syncer.Key) bool {
	src, _ := s.store.Source(service)
	return s.store.ReadyFrom(service) > 0 || src.Placed && !src.Known
}

// setSelector takes in a Service that may select other pods than before.
func (s *State) setSelector(v serviceVersion, keeps bool) []store.Dirty {
	key := v.Object.Key
	if !keeps {
		delete(s.selectors, key)
		return append(s.store.SetService(v), s.store.KeepSelector(key, false)...)
	}
	if s.selectors == nil {
		s.selectors = map[syncer.Key]bool{}
	}
	if !s.selectors[key] {
		s.selectors[key] = true
		s.out.Facts = append(s.out.Facts, Fact{Warning, "Service selects pods that are out of sight: it keeps its former endpoints until they are seen", []any{"service", key}})
	}
	s.store.KeepSelector(key, true)
	return s.store.SetService(v)
}

// followSelectors has Services go by their own selectors again.
func (s *State) followSelectors(now time.Time, follows func(service syncer.Key) bool, out *Effects) {
	var dirty []store.Dirty
	for _, key := range slices.SortedFunc(maps.Keys(s.selectors), syncer.Key.Compare) {
		if follows(key) {
			delete(s.selectors, key)
			dirty = append(dirty, s.reselects(now, key, func() []store.Dirty { return s.store.KeepSelector(key, false) })...)
		}
	}
	s.announceList(out, Cause{Kind: "Cluster", Event: "relist"}, merged(dirty))
}

// checkSelectors does so for those whose former pods are gone.
func (s *State) checkSelectors(now time.Time, out *Effects) {
	if len(s.selectors) > 0 {
		s.followSelectors(now, func(service syncer.Key) bool { return !s.mayGive(service) }, out)
	}
}

// podsListed does so when a list of pods has shown theirs.
func (s *State) podsListed(now time.Time, out *Effects) {
	if !s.quarantine.doubted(Pods) {
		s.followSelectors(now, func(service syncer.Key) bool { return !s.isLeftOut(Pods, service.Namespace) }, out)
	}
}

// podsFollowed has pods listed that are in sight again, if anybody waits for that: a stream
// that goes on where it was does not say when it has told all that happened meanwhile.
func (s *State) podsFollowed(now time.Time) {
	waits := func(service syncer.Key) bool { return !s.isBlind(service.Namespace) }
	if !s.rescoped && slices.ContainsFunc(slices.Concat(slices.Collect(maps.Keys(s.selectors)), slices.Collect(maps.Keys(s.unread))), waits) {
		s.dueBy(Pods, now)
	}
}
