// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// ServiceReplacement is a complete list of Services that has been compared with
// what is held and not been applied. Absent Services can be held like absent
// pods: see PodReplacement. A Service that is held goes on following its pods.
type ServiceReplacement struct {
	// Absent are the Services that are held and not in the list, sorted by key.
	Absent []AbsentService
	// Impact of removing all of them.
	Impact Impact

	store    *Store
	list     []Versioned[syncer.Service]
	rv       uint64
	services []*service // of Absent
}

// AbsentService is a Service that a list does not show.
type AbsentService struct {
	Service *syncer.Service
	// Replica is where it is placed; zero when it is not.
	Replica syncer.Key
	// Held is true when it was absent before and kept.
	Held bool
}

// PlanReplaceServices compares a complete list, read at revision rv (0: unknown),
// with what is held. The list belongs to the store from here on. No event of a
// Service may come between it and Apply.
func (s *Store) PlanReplaceServices(list []Versioned[syncer.Service], rv uint64) *ServiceReplacement {
	r := &ServiceReplacement{store: s, list: list, rv: rv}
	listed := make(map[syncer.Key]struct{}, len(list))
	for i := range list {
		listed[list[i].Object.Key] = struct{}{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	absent := map[*service]bool{}
	for _, ns := range s.namespaces {
		for _, svc := range ns.services {
			if _, ok := listed[svc.current.Key]; !ok {
				r.services = append(r.services, svc)
				absent[svc] = true
			}
		}
	}
	if len(absent) == 0 {
		return r
	}
	r.Impact = s.serviceImpact(absent)
	slices.SortFunc(r.services, func(a, b *service) int { return a.current.Key.Compare(b.current.Key) })
	for _, svc := range r.services {
		r.Absent = append(r.Absent, AbsentService{Service: svc.current, Replica: svc.replica, Held: svc.held})
	}
	return r
}

// Apply makes the list the truth, whatever the revisions, and returns the
// replicas whose contribution may have changed. keep says which absent Services
// are held; nil: none, all are removed.
func (r *ServiceReplacement) Apply(keep func(AbsentService) bool) []Dirty {
	var drop, hold []*service
	for i, svc := range r.services {
		if keep != nil && keep(r.Absent[i]) {
			hold = append(hold, svc)
		} else {
			drop = append(drop, svc)
		}
	}
	var d dirtyList
	r.set(&d)
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, svc := range hold {
		if s.service(svc.current.Key) == svc {
			s.holdService(svc, r.rv)
		}
	}
	for _, svc := range drop {
		if s.service(svc.current.Key) == svc {
			s.removeService(svc, &d)
		}
	}
	r.list, r.services = nil, nil
	return d.sorted()
}

// holdService is holdPod for a Service.
func (s *Store) holdService(svc *service, rv uint64) {
	svc.rv = min(svc.rv, rv)
	if !svc.held {
		svc.held = true
		s.count.heldServices++
	}
}

// set takes in what the list shows.
func (r *ServiceReplacement) set(d *dirtyList) {
	s := r.store
	s.placing.Lock()
	defer s.placing.Unlock()
	positions := make([]position, len(r.list))
	for i := range r.list {
		positions[i] = s.place(&r.list[i].Object)
	}
	s.mu.Lock()
	s.serviceSequence.replaced(r.rv)
	s.mu.Unlock()
	for start := 0; start < len(r.list); start += applyChunk {
		s.mu.Lock()
		for i := start; i < min(start+applyChunk, len(r.list)); i++ {
			s.setService(&r.list[i].Object, r.list[i].RV, positions[i], d)
		}
		s.mu.Unlock()
	}
}

// ReplaceServices applies a complete list and removes what is absent.
func (s *Store) ReplaceServices(list []Versioned[syncer.Service], rv uint64) []Dirty {
	return s.PlanReplaceServices(list, rv).Apply(nil)
}

// HeldServices returns the Services that are held, sorted by key.
func (s *Store) HeldServices() []*syncer.Service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var services []*syncer.Service
	for _, svc := range s.heldServices() {
		services = append(services, svc.current)
	}
	slices.SortFunc(services, func(a, b *syncer.Service) int { return a.Key.Compare(b.Key) })
	return services
}

// ReleaseHeldServices removes the held Services that match; nil: all.
func (s *Store) ReleaseHeldServices(match func(*syncer.Service) bool) []Dirty {
	release := map[syncer.Key]bool{}
	for _, svc := range s.HeldServices() {
		if match == nil || match(svc) {
			release[svc.Key] = true
		}
	}
	var d dirtyList
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, svc := range s.heldServices() { // not confirmed meanwhile
		if release[svc.current.Key] {
			s.removeService(svc, &d)
		}
	}
	return d.sorted()
}

func (s *Store) heldServices() []*service {
	if s.count.heldServices == 0 {
		return nil
	}
	var held []*service
	for _, ns := range s.namespaces {
		for _, svc := range ns.services {
			if svc.held {
				held = append(held, svc)
			}
		}
	}
	return held
}
