// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"

	"tributary.dev/tributary/syncer"
)

// service is a Service as it is held.
type service struct {
	// current is the Service as last seen; never changed.
	current *syncer.Service
	// effective is what its contribution is computed from: current, except for a
	// Service that has just lost its selector, or keepsSelector. Then it is current with
	// the selector of before; see Store.effective.
	effective     *syncer.Service
	keepsSelector bool
	rv            uint64
	list          uint16 // that showed it last
	held          bool   // lists lack it, and it is kept nevertheless

	placed  bool
	replica syncer.Key // when placed

	// indexed is true while the Service stands in its namespace's index: it is placed
	// and computed from pods. The three fields below belong to the index.
	indexed              bool
	groups               map[*group]struct{}
	filedKey, filedValue string
	trigger              *trigger

	// kept is what rules need of the Service. rulings are what they make of its pods, by
	// name. heldRules are held for it; open is true until that is known of an edit.
	rules     *Edit
	kept      Kept
	rulings   map[string]*ruling
	heldRules []string
	open      bool
}

// computed reports whether endpoints come from pods rather than by hand.
func (svc *service) computed() bool { return svc.effective.Selector != nil }

// records are the pods that an indexed Service selects, in no order.
func (svc *service) records(yield func(*record) bool) {
	for g := range svc.groups {
		for _, rec := range g.pods {
			if !yield(rec) {
				return
			}
		}
	}
}

// podCounts sums up the pods of an indexed Service, as they count.
func (svc *service) podCounts() podCounts {
	var t podCounts
	for g := range svc.groups {
		t = t.plus(g.podCounts)
	}
	for _, r := range svc.rulings {
		t = t.plus(r.counts())
	}
	return t
}

// DeleteService takes in a deletion, of which v is the last state. Only key and
// revision count.
func (s *Store) DeleteService(v Versioned[syncer.Service]) []Dirty {
	s.services.remove(v.Object.Namespace, v.RV)
	return s.RemoveService(v.Object.Key)
}

// SetService makes v the held version, whatever its revision, and returns the replicas
// whose contribution may have changed, two if the Service moved from one to another.
func (s *Store) SetService(v Versioned[syncer.Service]) []Dirty {
	var d dirtyList
	s.setService(&v.Object, v.Kept, v.RV, s.place(&v.Object), &d)
	return d.sorted()
}

// Selector is what the endpoints of a placed Service come from: nil are those that are
// written by hand.
func (s *Store) Selector(key syncer.Key) (selector map[string]string, placed bool) {
	if svc := s.service(key); svc != nil && svc.placed {
		return svc.effective.Selector, true
	}
	return nil, false
}

// KeepSelector has a Service go on by the selector that its endpoints come from, if any,
// whatever selector it gets from now on, or no longer.
func (s *Store) KeepSelector(key syncer.Key, keeps bool) []Dirty {
	var d dirtyList
	if svc := s.service(key); svc != nil && svc.keepsSelector != keeps {
		if svc.keepsSelector = keeps; !keeps && s.effective(svc, svc.current) != svc.effective {
			s.changeService(svc, svc.current, svc.placement(), &d)
			d.add(svc, syncer.Removal)
		}
	}
	return d.sorted()
}

// RemoveService is RemovePod for a Service.
func (s *Store) RemoveService(key syncer.Key) []Dirty {
	var d dirtyList
	if svc := s.service(key); svc != nil {
		s.removeService(svc, &d)
	}
	return d.sorted()
}

// HoldService is HoldPod for a Service. It goes on following its pods.
func (s *Store) HoldService(key syncer.Key) {
	if svc := s.service(key); svc != nil && !svc.held {
		svc.held = true
		s.count.HeldServices++
	}
}

// SetPlacement replaces the placement and returns the replicas that lose and
// gain Services: announce them in bulk.
func (s *Store) SetPlacement(p Placement) []Dirty {
	s.placement = p
	var d dirtyList
	for _, ns := range s.namespaces {
		for _, svc := range ns.services {
			s.changeService(svc, svc.current, s.place(svc.current), &d)
		}
	}
	return d.sorted()
}

// position is the answer of a Placement.
type placement struct {
	replica syncer.Key
	ok      bool
}

// place asks where a Service goes.
func (s *Store) place(svc *syncer.Service) placement {
	if svc.ExternalName {
		return placement{}
	}
	replica, ok := s.placement(svc)
	if !ok {
		return placement{}
	}
	return placement{replica, true}
}

// ServiceOutdated is PodOutdated for a Service.
func (s *Store) ServiceOutdated(v Versioned[syncer.Service]) bool {
	held, ok := s.ServiceRevision(v.Object.Key)
	return s.services.stale(v.Object.Namespace, v.RV, ok, held)
}

// setService makes v the held version, whatever its revision.
func (s *Store) setService(v *syncer.Service, kept Kept, rv uint64, at placement, d *dirtyList) {
	svc := s.service(v.Key)
	if svc == nil {
		ns := s.namespaces[v.Namespace]
		if ns == nil {
			ns = newNamespace(v.Namespace)
			s.namespaces[ns.name] = ns
		}
		own := *v
		svc = &service{current: &own, trigger: &trigger{}, kept: kept}
		svc.effective = svc.current
		ns.services[own.Name] = svc
		s.count.Services++
		s.changeService(svc, svc.current, at, d)
	} else {
		s.confirmService(svc)
		seen := svc.kept != kept || !maps.Equal(svc.current.Labels, v.Labels)
		svc.kept = kept
		if equalServices(svc.current, v) {
			v = svc.current
		} else {
			own := *v
			v = &own
		}
		s.changeService(svc, v, at, d)
		if seen && svc.indexed && svc.rules.decider != nil {
			s.reruleAll(svc, d)
		}
	}
	svc.rv, svc.list = rv, s.services.list
}

// changeService makes v the current version of a held Service and at its
// position. A Service that is new is changed from "not placed" to its position.
func (s *Store) changeService(svc *service, v *syncer.Service, at placement, d *dirtyList) {
	old, recreated := svc.current, svc.current.UID != v.UID
	effective := s.effective(svc, v)
	if v == old && effective == svc.effective && at == svc.placement() {
		return
	}
	s.noteService(svc)
	d.noteService(svc, v, at, serviceEffect(old, v))
	reindex := recreated || !sameSelector(svc.effective.Selector, effective.Selector) || at.ok != svc.placed
	if reindex {
		s.unindex(svc)
	}
	if at != svc.placement() {
		s.unplace(svc)
		s.placeAt(svc, at)
	}
	svc.current, svc.effective = v, effective
	s.noteManual(svc)
	if recreated {
		svc.trigger = &trigger{}
	}
	if reindex {
		s.index(svc)
	}
}

// noteService tells the replicas that a Service leaves, stays in, or enters.
func (d *dirtyList) noteService(svc *service, v *syncer.Service, at placement, effect syncer.Effect) {
	if svc.placed && svc.placement() != at {
		d.addPair(svc.replica, v.Key, syncer.Removal)
	}
	if at.ok {
		if svc.placement() != at {
			effect = syncer.Addition
		}
		d.addPair(at.replica, v.Key, effect)
	}
}

func (svc *service) placement() placement { return placement{svc.replica, svc.placed} }

func (s *Store) placeAt(svc *service, at placement) {
	svc.replica, svc.placed = at.replica, at.ok
	if at.ok {
		s.replicas[at.replica] = append(s.replicas[at.replica], svc)
		s.count.Placed++
	}
}

func (s *Store) unplace(svc *service) {
	if !svc.placed {
		return
	}
	left := without(s.replicas[svc.replica], svc)
	if len(left) == 0 {
		delete(s.replicas, svc.replica)
	} else {
		s.replicas[svc.replica] = left
	}
	svc.placed, svc.replica = false, syncer.Key{}
	s.count.Placed--
}

func (s *Store) index(svc *service) {
	if svc.placed && svc.computed() {
		svc.indexed, svc.rules = true, s.rules
		s.namespaces[svc.current.Namespace].index(svc)
		for rec := range svc.records {
			s.rule(svc, nil, rec, false)
		}
	}
}

func (s *Store) unindex(svc *service) {
	if svc.indexed {
		svc.indexed, svc.rulings = false, nil
		s.namespaces[svc.current.Namespace].unindex(svc)
	}
}

// removeService takes a Service out.
func (s *Store) removeService(svc *service, d *dirtyList) {
	ns := s.namespaces[svc.current.Namespace]
	s.confirmService(svc)
	s.noteService(svc)
	d.add(svc, syncer.Removal)
	s.unindex(svc)
	s.unplace(svc)
	s.noteManual(svc)
	delete(ns.services, svc.current.Name)
	s.count.Services--
	s.sweepNamespace(ns)
}

// confirmService ends the holding of a Service, if it is held.
func (s *Store) confirmService(svc *service) {
	if svc.held {
		svc.held = false
		s.count.HeldServices--
	}
}
