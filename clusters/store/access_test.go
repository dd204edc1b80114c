// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// What tests ask of a store in one call.

func (s *Store) Gather(replica syncer.Key) ([]SourceContribution, func()) {
	return Gather(s.Inputs(replica))
}

func (s *Store) Peek(replica syncer.Key) []SourceContribution { return Peek(s.Inputs(replica)) }

func (s *Store) Contributions(replica syncer.Key) []SourceContribution {
	contributions, commit := s.Gather(replica)
	commit()
	return contributions
}

// What a watch brings, as far as it is news.

func (s *Store) UpsertPod(v Versioned[syncer.Pod]) []Dirty {
	if s.PodOutdated(v) {
		return nil
	}
	return s.SetPod(v)
}

func (s *Store) deletePod(v Versioned[syncer.Pod]) []Dirty {
	if s.PodOutdated(v) {
		return nil
	}
	return s.DeletePod(v)
}

func (s *Store) UpsertService(v Versioned[syncer.Service]) []Dirty {
	if s.ServiceOutdated(v) {
		return nil
	}
	return s.SetService(v)
}

func (s *Store) deleteService(v Versioned[syncer.Service]) []Dirty {
	if s.ServiceOutdated(v) {
		return nil
	}
	return s.DeleteService(v)
}

func (s *Store) UpsertEndpoints(v Versioned[Endpoints]) []Dirty {
	if s.ManualOutdated(ManualObject{Service: v.Object.Key}, v.RV) {
		return nil
	}
	return s.SetEndpoints(v)
}

func (s *Store) UpsertSlice(v Versioned[Slice]) []Dirty {
	if s.ManualOutdated(ManualObject{v.Object.ServiceKey(), v.Object.Name}, v.RV) {
		return nil
	}
	return s.SetSlice(v)
}

func (s *Store) deleteManual(o ManualObject, rv uint64) []Dirty {
	if s.ManualOutdated(o, rv) {
		return nil
	}
	return s.DeleteManual(o, rv)
}

// replacePods takes in a list; keep says which pods that it lacks are held.
func (s *Store) replacePods(list []Versioned[syncer.Pod], rv uint64, older bool, keep func(*syncer.Pod) bool) []Dirty {
	s.BeginPods(rv, older)
	for _, v := range list {
		s.MarkPod(v.Object.Key, v.RV, older)
	}
	var lacking []*syncer.Pod
	for _, ns := range s.Namespaces() {
		s.LackingPods(ns, rv, older, func(p *syncer.Pod, _ uint64) { lacking = append(lacking, p) })
	}
	var d dirtyList
	add := func(dirty []Dirty) {
		for _, one := range dirty {
			d.addPair(one.Replica, one.Source, one.Effect)
		}
	}
	for _, v := range list {
		add(s.SetPod(v))
	}
	for _, p := range lacking {
		if keep != nil && keep(p) {
			s.HoldPod(p.Key)
		} else {
			add(s.RemovePod(p.Key))
		}
	}
	return d.sorted()
}

func (s *Store) replaceServices(list []Versioned[syncer.Service], rv uint64, older bool, keep func(*syncer.Service) bool) []Dirty {
	s.BeginServices(rv, older)
	for _, v := range list {
		s.MarkService(v.Object.Key, v.RV, older)
	}
	var lacking []*syncer.Service
	for _, ns := range s.Namespaces() {
		s.LackingServices(ns, rv, older, func(svc *syncer.Service) { lacking = append(lacking, svc) })
	}
	var d dirtyList
	add := func(dirty []Dirty) {
		for _, one := range dirty {
			d.addPair(one.Replica, one.Source, one.Effect)
		}
	}
	for _, v := range list {
		add(s.SetService(v))
	}
	for _, svc := range lacking {
		if keep != nil && keep(svc) {
			s.HoldService(svc.Key)
		} else {
			add(s.RemoveService(svc.Key))
		}
	}
	return d.sorted()
}

// replaceManual takes in a list of the hand-written objects of one Service.
func (s *Store) replaceManual(ofSlices bool, service syncer.Key, rv uint64, older bool, shown []ManualObject, set func() []Dirty) []Dirty {
	var d dirtyList
	add := func(dirty []Dirty) {
		for _, one := range dirty {
			d.addPair(one.Replica, one.Source, one.Effect)
		}
	}
	services := []syncer.Key{service}
	s.BeginManual(ofSlices, services, rv, older)
	for _, o := range shown {
		s.MarkManual(o, rv, older)
	}
	add(set())
	for _, o := range s.LackingManual(ofSlices, services, rv, older) {
		add(s.RemoveManual(o))
	}
	dirty, _ := s.KnowManual(ofSlices, service)
	add(dirty)
	return d.sorted()
}

func (s *Store) replaceEndpoints(service syncer.Key, v *Versioned[Endpoints], rv uint64) []Dirty {
	if v == nil {
		return s.replaceManual(false, service, rv, false, nil, func() []Dirty { return nil })
	}
	return s.replaceManual(false, service, rv, false, []ManualObject{{Service: service}}, func() []Dirty { return s.SetEndpoints(*v) })
}

func (s *Store) replaceSlices(service syncer.Key, list []Versioned[Slice], rv uint64) []Dirty {
	var shown []ManualObject
	for _, v := range list {
		shown = append(shown, ManualObject{service, v.Object.Name})
	}
	return s.replaceManual(true, service, rv, false, shown, func() (dirty []Dirty) {
		for _, v := range slices.Clone(list) {
			dirty = append(dirty, s.SetSlice(v)...)
		}
		return dirty
	})
}
