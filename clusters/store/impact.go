// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"strconv"

	"tributary.dev/tributary/syncer"
)

// Impact is what a list would do to this member's ready endpoints, for a guard
// to judge before it is applied. Counts are those of Stats.
type Impact struct {
	// Before and After count ready endpoints over all placed Services, as held and
	// as they would be with everything absent removed.
	Before, After int
	// Removed counts the ready endpoints whose pod or Service is absent. It may be
	// large where After is not small: after a roll-out that nobody watched, all pods
	// are absent and as many others are there.
	Removed int
	// Lost counts those of Removed that nothing replaces: per replica, the ready
	// endpoints that are removed by absence, at most as many as it would have fewer.
	// It is the number to judge by.
	Lost int
	// Losing are the replicas with a share in Lost, sorted.
	Losing []syncer.Key
	// Emptied are the replicas that lose a ready endpoint by absence and would have
	// none from this member, sorted.
	Emptied []syncer.Key
}

// publishes reports whether all pods of a Service count as ready.
func (s *Store) publishes(svc *service) bool {
	if s.rules.TolerateUnreadyAnnotation {
		if tolerate, err := strconv.ParseBool(svc.current.Annotations[syncer.TolerateUnreadyAnnotation]); err == nil {
			return tolerate
		}
	}
	return svc.current.PublishNotReadyAddresses
}

// endpoints counts the endpoints of a placed Service.
func (s *Store) endpoints(svc *service) (ready, notReady int) {
	if svc.computed() {
		return svc.tally().endpoints(s.publishes(svc))
	}
	return s.written[svc.current.Key].count()
}

// ReadyEndpoints counts the ready endpoints that this member gives to a replica,
// as Stats does. known is false while hand-written ones have not been read.
func (s *Store) ReadyEndpoints(replica syncer.Key) (ready int, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known = true
	for _, svc := range s.replicas[replica] {
		n, _ := s.endpoints(svc)
		ready += n
		if svc.needsWritten() && !s.written[svc.current.Key].known() {
			known = false
		}
	}
	return ready, known
}

// impact sums up what is left and what goes, by Service.
func (s *Store) impact(left, gone func(*service) int) Impact {
	var total Impact
	for replica, services := range s.replicas {
		before, after, removed := 0, 0, 0
		for _, svc := range services {
			ready, _ := s.endpoints(svc)
			before += ready
			after += left(svc)
			removed += gone(svc)
		}
		total.Before += before
		total.After += after
		total.Removed += removed
		if lost := min(removed, before-after); lost > 0 {
			total.Lost += lost
			total.Losing = append(total.Losing, replica)
		}
		if removed > 0 && after == 0 {
			total.Emptied = append(total.Emptied, replica)
		}
	}
	slices.SortFunc(total.Losing, syncer.Key.Compare)
	slices.SortFunc(total.Emptied, syncer.Key.Compare)
	return total
}

// podImpact judges a list of pods.
func (s *Store) podImpact(list []Versioned[syncer.Pod], absent []*record) Impact {
	listed, lost := map[*service]tally{}, map[*service]tally{}
	for i := range list {
		p := &list[i].Object
		for _, svc := range s.servicesOf(p) {
			t := listed[svc]
			t.add(p)
			listed[svc] = t
		}
	}
	for _, rec := range absent {
		for _, svc := range rec.group.services {
			t := lost[svc]
			t.add(&rec.Pod)
			lost[svc] = t
		}
	}
	count := func(tallies map[*service]tally) func(*service) int {
		return func(svc *service) int {
			ready, _ := tallies[svc].endpoints(s.publishes(svc))
			return ready
		}
	}
	left := func(svc *service) int {
		if svc.computed() {
			return count(listed)(svc)
		}
		ready, _ := s.endpoints(svc)
		return ready
	}
	return s.impact(left, count(lost))
}

// servicesOf returns the linked Services that select a pod that need not be held.
func (s *Store) servicesOf(p *syncer.Pod) []*service {
	ns := s.namespaces[p.Namespace]
	if ns == nil {
		return nil
	}
	if rec := ns.pods[p.Name]; rec != nil && syncer.EqualLabels(rec.Labels, p.Labels) {
		return rec.group.services
	}
	if g := ns.find(HashLabels(s.seed, p.Labels), p.Labels); g != nil {
		return g.services
	}
	return ns.matching(p.Labels)
}

// serviceImpact judges the absence of Services. Services that a list brings are
// not counted.
func (s *Store) serviceImpact(absent map[*service]bool) Impact {
	count := func(isAbsent bool) func(*service) int {
		return func(svc *service) int {
			if absent[svc] != isAbsent {
				return 0
			}
			ready, _ := s.endpoints(svc)
			return ready
		}
	}
	return s.impact(count(false), count(true))
}

// writtenImpact judges a list of hand-written endpoints: left is what Services in
// it would have, gone what they would have on top of that if nothing was absent.
func (s *Store) writtenImpact(left, gone map[*service]int) Impact {
	return s.impact(func(svc *service) int {
		if ready, ok := left[svc]; ok {
			return ready
		}
		ready, _ := s.endpoints(svc)
		return ready
	}, func(svc *service) int { return gone[svc] })
}
