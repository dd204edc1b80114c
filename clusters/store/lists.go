// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// A list is taken in in four turns, between which others may read: Begin, Mark for
// each object that it shows, Lacking for what it does not, and Set for each object.
// What is lacking stays until it is removed: that is for others to judge.

// BeginPods begins a list that was read at revision rv (0: unknown). Older is one
// from before what was seen. It says nothing of the namespaces in leftOut.
func (s *Store) BeginPods(rv uint64, older bool, leftOut ...string) {
	s.pods.begin(rv, older, leftOut...)
}

// ListsPod reports whether the last list must show a pod of a namespace that is there at
// revision rv.
func (s *Store) ListsPod(namespace string, rv uint64) bool { return s.pods.lists(namespace, rv) }

// MarkPod notes that the list shows a pod.
func (s *Store) MarkPod(key syncer.Key, rv uint64, older bool) {
	if rec := s.record(key); rec != nil {
		s.pods.mark(&rec.list, &rec.rv, rv, older)
	}
}

// LackingPods calls yield for each pod of a namespace that the list at revision rv
// lacks, with that at which it was held, and returns how many it has looked at.
func (s *Store) LackingPods(namespace string, rv uint64, older bool, yield func(p *syncer.Pod, rv uint64)) int {
	ns := s.namespaces[namespace]
	if ns == nil {
		return 0
	}
	for _, rec := range ns.pods {
		if s.pods.lacks(rec.list, rec.rv, rv, older) {
			held := rec.rv
			if older {
				rec.rv = 0 // at what revision it comes back, if it does, nobody knows
			}
			yield(&rec.Pod, held)
		}
	}
	return len(ns.pods)
}

// BeginServices is BeginPods for Services.
func (s *Store) BeginServices(rv uint64, older bool, leftOut ...string) {
	s.services.begin(rv, older, leftOut...)
}

// ListsService is ListsPod for a Service.
func (s *Store) ListsService(namespace string, rv uint64) bool {
	return s.services.lists(namespace, rv)
}

// MarkService is MarkPod for a Service.
func (s *Store) MarkService(key syncer.Key, rv uint64, older bool) {
	if svc := s.service(key); svc != nil {
		s.services.mark(&svc.list, &svc.rv, rv, older)
	}
}

// LackingServices is LackingPods for Services.
func (s *Store) LackingServices(namespace string, rv uint64, older bool, yield func(*syncer.Service)) int {
	ns := s.namespaces[namespace]
	if ns == nil {
		return 0
	}
	for _, svc := range ns.services {
		if s.services.lacks(svc.list, svc.rv, rv, older) {
			if older {
				svc.rv = 0
			}
			yield(svc.current)
		}
	}
	return len(ns.services)
}

// Namespaces returns the namespaces in which there is anything, in no order.
func (s *Store) Namespaces() []string {
	return slices.Collect(maps.Keys(s.namespaces))
}
