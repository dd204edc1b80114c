// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// manual is what the tables of hand-written endpoints have in common: a list of them
// speaks of some Services alone.
type manual[T Object] struct {
	plain[T]
	services []syncer.Key // those that the list speaks of and that have no selector
	ofSlices bool
	first    bool // the list makes all of some Service known
}

// manualTable is a table for a list that speaks of some Services.
func manualTable[T Object](s *State, services []syncer.Key, leftOut []string, ofSlices bool) manual[T] {
	t := manual[T]{ofSlices: ofSlices}
	for _, key := range services {
		if s.store.IsManual(key) && !slices.Contains(leftOut, key.Namespace) {
			t.services = append(t.services, key)
		}
	}
	return t
}

func (t *manual[T]) begin(s *State, rv uint64, older bool) {
	s.store.BeginManual(t.ofSlices, t.services, rv, older)
}

func (*manual[T]) places(*State) []string { return []string{""} }

func (t *manual[T]) lacking(s *State, _ string, rv uint64, older bool, yield func(lost)) int {
	lacking := s.store.LackingManual(t.ofSlices, t.services, rv, older)
	for _, o := range lacking {
		yield(s.lostManual(o))
	}
	return len(lacking)
}

func (s *State) lostManual(o store.ManualObject) lost {
	return lost{id: manualObject(o), uid: s.store.ManualUID(o), service: o.Service, replicas: s.replicaOf(o.Service)}
}

// believed takes what was read for all that there is.
func (t *manual[T]) believed(s *State) (dirty []store.Dirty) {
	for _, key := range t.services {
		if s.quarantine.unsure[key] {
			continue
		}
		d, first := s.store.KnowManual(t.ofSlices, key)
		dirty = append(dirty, d...)
		t.first = t.first || first
	}
	return dirty
}

func (t *manual[T]) met(s *State, _ time.Time, _ *T, out *Effects) { s.baselineManual(out) }

func (t *manual[T]) ended(s *State, now time.Time, before map[syncer.Key]int, out *Effects) {
	s.judgeLacking(now, Manual, before, false, out)
	if s.synced && t.first {
		s.judgeBaseline(now, out)
	}
	s.baselineManual(out)
}

// manualObject is the name of what gives hand-written endpoints.
func manualObject(o store.ManualObject) object {
	if o.Slice == "" {
		return object{Endpoints, o.Service}
	}
	return object{Slices, syncer.Key{Namespace: o.Service.Namespace, Name: o.Slice}}
}

type endpointsVersion = store.Versioned[store.Endpoints]

// endpoints is the table of Endpoints of Services without selector.
type endpoints struct{ manual[store.Endpoints] }

func (*endpoints) kind() Kind                    { return Endpoints }
func (*endpoints) id(o *store.Endpoints) object  { return object{Endpoints, o.Key} }
func (*endpoints) uid(o *store.Endpoints) string { return o.UID }

// wanted leaves out Endpoints that a controller derived from a selector.
func (*endpoints) wanted(s *State, o *store.Endpoints) bool { return s.store.IsManual(o.Key) }

func (*endpoints) cause(o *store.Endpoints, rv uint64, event string) Cause {
	return objectCause("Endpoints", o.Key, "", rv, event)
}

func (*endpoints) lost(s *State, o *store.Endpoints) lost {
	return s.lostManual(store.ManualObject{Service: o.Key})
}

func (*endpoints) revision(s *State, o *store.Endpoints) (uint64, bool) {
	return s.store.ManualRevision(store.ManualObject{Service: o.Key})
}

func (*endpoints) outdated(s *State, v endpointsVersion) bool {
	return s.store.ManualOutdated(store.ManualObject{Service: v.Object.Key}, v.RV)
}

func (*endpoints) listed(s *State, v endpointsVersion) bool {
	return s.store.ListsManual(store.ManualObject{Service: v.Object.Key}, v.RV)
}

func (*endpoints) mark(s *State, o *store.Endpoints, rv uint64, older bool) {
	s.store.MarkManual(store.ManualObject{Service: o.Key}, rv, older)
}

func (t *endpoints) hear(s *State, now time.Time, v endpointsVersion, _ *Effects) []store.Dirty {
	return t.put(s, now, v)
}

func (*endpoints) put(s *State, now time.Time, v endpointsVersion) []store.Dirty {
	return s.noteManual(now, v.Object.Key, func() []store.Dirty { return s.store.SetEndpoints(v) })
}

func (*endpoints) remove(s *State, now time.Time, v endpointsVersion) []store.Dirty {
	return s.noteManual(now, v.Object.Key, func() []store.Dirty { return s.store.DeleteManual(store.ManualObject{Service: v.Object.Key}, v.RV) })
}

type sliceVersion = store.Versioned[store.Slice]

// slicesTable is the table of slices that no controller derived. One that is listed as
// another Service's is not absent: it has gone over.
type slicesTable struct{ manual[store.Slice] }

func (*slicesTable) kind() Kind                { return Slices }
func (*slicesTable) id(o *store.Slice) object  { return object{Slices, o.Key} }
func (*slicesTable) uid(o *store.Slice) string { return o.UID }

func (*slicesTable) cause(o *store.Slice, rv uint64, event string) Cause {
	return objectCause("EndpointSlice", o.Key, "", rv, event)
}

func nameOfSlice(o *store.Slice) store.ManualObject {
	return store.ManualObject{Service: o.ServiceKey(), Slice: o.Name}
}

func (*slicesTable) lost(s *State, o *store.Slice) lost { return s.lostManual(nameOfSlice(o)) }

func (*slicesTable) revision(s *State, o *store.Slice) (uint64, bool) {
	return s.store.ManualRevision(nameOfSlice(o))
}

func (*slicesTable) outdated(s *State, v sliceVersion) bool {
	return s.store.ManualOutdated(nameOfSlice(&v.Object), v.RV)
}

func (*slicesTable) listed(s *State, v sliceVersion) bool {
	return s.store.ListsManual(nameOfSlice(&v.Object), v.RV)
}

func (*slicesTable) mark(s *State, o *store.Slice, rv uint64, older bool) {
	s.store.MarkManual(nameOfSlice(o), rv, older)
}

func (t *slicesTable) hear(s *State, now time.Time, v sliceVersion, _ *Effects) []store.Dirty {
	return t.put(s, now, v)
}

func (*slicesTable) put(s *State, now time.Time, v sliceVersion) []store.Dirty {
	return s.noteManual(now, s.store.ManualSlice(v.Object.Key).Service, func() []store.Dirty { // it may be another's by now
		return s.noteManual(now, v.Object.ServiceKey(), func() []store.Dirty { return s.store.SetSlice(v) })
	})
}

func (*slicesTable) remove(s *State, now time.Time, v sliceVersion) []store.Dirty {
	return s.noteManual(now, v.Object.ServiceKey(), func() []store.Dirty { return s.store.DeleteManual(nameOfSlice(&v.Object), v.RV) })
}

// forgetManual takes off the books what lists lack of Services that need nothing written
// by hand any more. Where none does, nobody lists it, and no doubt is left.
func (s *State) forgetManual() {
	for _, a := range s.absent {
		if (a.id.Kind == Endpoints || a.id.Kind == Slices) && !s.store.IsManual(a.service) {
			s.forget(a)
		}
	}
	if len(s.store.ManualSources()) == 0 {
		for _, kind := range []Kind{Endpoints, Slices} {
			s.quarantine.since[kind], s.due[kind], s.contradicted[kind] = time.Time{}, time.Time{}, time.Time{}
		}
	}
}
