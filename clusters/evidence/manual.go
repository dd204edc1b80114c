// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

type (
	endpointsVersion = store.Versioned[store.Endpoints]
	sliceVersion     = store.Versioned[store.Slice]
)

// manual is the table of hand-written endpoints of a kind: Endpoints of Services without
// selector, or slices that no controller derived. One that is listed as another Service's is
// not absent: it has gone over.
type manual[T Object] struct {
	plain[T]
	services []syncer.Key // those that the list speaks of and that have no selector
	first    bool         // the list makes all of some Service known
}

// beginManual takes in a list, which speaks of some Services alone.
func beginManual[T Object](s *State, now time.Time, l Listed[T], out *Effects) {
	t := &manual[T]{}
	for _, key := range l.Services {
		if s.store.IsManual(key) {
			t.services = append(t.services, key)
		}
	}
	beginList(s, now, t, l, out)
}

func (*manual[T]) ofSlices() bool {
	_, is := any((*T)(nil)).(*store.Slice)
	return is
}

func (t *manual[T]) kind() Kind {
	if t.ofSlices() {
		return Slices
	}
	return Endpoints
}

// name is that of an object in the store.
func (*manual[T]) name(o *T) (name store.ManualObject) {
	switch o := any(o).(type) {
	case *store.Endpoints:
		name.Service = o.Key
	case *store.Slice:
		name.Service, name.Slice = o.ServiceKey(), o.Name
	}
	return name
}

func (*manual[T]) uid(o *T) string {
	switch o := any(o).(type) {
	case *store.Endpoints:
		return o.UID
	case *store.Slice:
		return o.UID
	}
	return ""
}

func (t *manual[T]) id(o *T) object { return manualObject(t.name(o)) }

func (t *manual[T]) begin(s *State, rv uint64, older bool) {
	s.store.BeginManual(t.ofSlices(), t.services, rv, older, s.leftOut.names(t.kind())...)
}

func (*manual[T]) places(*State) []string { return []string{""} }

func (t *manual[T]) lacking(s *State, _ string, rv uint64, older bool, yield func(lost)) int {
	lacking := s.store.LackingManual(t.ofSlices(), t.services, rv, older)
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
		if s.quarantine.unsure[key] || s.isLeftOut(t.kind(), key.Namespace) {
			continue
		}
		d, first := s.store.KnowManual(t.ofSlices(), key)
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

// wanted leaves out Endpoints that a controller derived from a selector.
func (t *manual[T]) wanted(s *State, o *T) bool {
	return t.ofSlices() || s.store.IsManual(t.name(o).Service)
}

func (t *manual[T]) cause(o *T, rv uint64, event string) Cause {
	return objectCause(kindName(t.kind()), t.id(o).Key, "", rv, event)
}

func (t *manual[T]) lost(s *State, o *T) lost { return s.lostManual(t.name(o)) }

func (t *manual[T]) revision(s *State, o *T) (uint64, bool) { return s.store.ManualRevision(t.name(o)) }

func (t *manual[T]) outdated(s *State, v store.Versioned[T]) bool {
	return s.store.ManualOutdated(t.name(&v.Object), v.RV)
}

func (t *manual[T]) listed(s *State, v store.Versioned[T]) bool {
	return s.store.ListsManual(t.name(&v.Object), v.RV)
}

func (t *manual[T]) mark(s *State, o *T, rv uint64, older bool) {
	s.store.MarkManual(t.name(o), rv, older)
}

func (t *manual[T]) hear(s *State, now time.Time, v store.Versioned[T], _ *Effects) []store.Dirty {
	return t.put(s, now, v)
}

func (*manual[T]) put(s *State, now time.Time, v store.Versioned[T]) []store.Dirty {
	switch v := any(v).(type) {
	case endpointsVersion:
		return s.noteManual(now, v.Object.Key, func() []store.Dirty { return s.store.SetEndpoints(v) })
	case sliceVersion:
		return s.noteManual(now, s.store.ManualSlice(v.Object.Key).Service, func() []store.Dirty { // it may be another's by now
			return s.noteManual(now, v.Object.ServiceKey(), func() []store.Dirty { return s.store.SetSlice(v) })
		})
	}
	return nil
}

func (t *manual[T]) remove(s *State, now time.Time, v store.Versioned[T]) []store.Dirty {
	name := t.name(&v.Object)
	return s.noteManual(now, name.Service, func() []store.Dirty { return s.store.DeleteManual(name, v.RV) })
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
