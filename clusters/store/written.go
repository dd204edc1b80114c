// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// handWritten are the endpoints of one Service name that people or their tools
// write themselves. It lives apart from the Service: whoever watches it says
// when it is known and when it is forgotten, in whatever order that and the
// Service's own events come.
type handWritten struct {
	endpoints Versioned[Endpoints]
	exists    bool // the Endpoints object does
	slices    map[string]Versioned[Slice]

	endpointsKnown, slicesKnown       bool
	endpointsSequence, slicesSequence sequence
}

// known reports whether all that was written is here.
func (w *handWritten) known() bool { return w != nil && w.endpointsKnown && w.slicesKnown }

// NeedsWritten reports whether the contribution of a Service comes, or is about
// to come, from hand-written endpoints: it is placed and has no selector.
func (s *Store) NeedsWritten(service syncer.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	svc := s.service(service)
	return svc != nil && svc.needsWritten()
}

func (svc *service) needsWritten() bool { return svc.placed && svc.current.Selector == nil }

// WrittenSources returns the Services for which NeedsWritten is true, sorted.
func (s *Store) WrittenSources() []syncer.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []syncer.Key
	for _, services := range s.replicas {
		for _, svc := range services {
			if svc.needsWritten() {
				keys = append(keys, svc.current.Key)
			}
		}
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return keys
}

// UpsertEndpoints takes in Endpoints of a watch event.
func (s *Store) UpsertEndpoints(v Versioned[Endpoints]) []Dirty {
	return s.changeWritten(v.Object.Key, func(w *handWritten) bool {
		if w.endpointsSequence.stale(v.RV, w.exists, w.endpoints.RV) {
			return false
		}
		w.endpoints, w.exists, w.endpointsKnown = v, true, true
		return true
	})
}

// DeleteEndpoints takes in their deletion. Only key and revision count.
func (s *Store) DeleteEndpoints(v Versioned[Endpoints]) []Dirty {
	return s.changeWritten(v.Object.Key, func(w *handWritten) bool {
		if w.endpointsSequence.stale(v.RV, w.exists, w.endpoints.RV) {
			return false
		}
		w.endpointsSequence.deleted(v.RV)
		w.endpoints, w.exists, w.endpointsKnown = Versioned[Endpoints]{}, false, true
		return true
	})
}

// ReplaceEndpoints takes in the answer to a list or a get at revision rv: the
// Endpoints of the Service, nil if there are none. That there are none is soft
// evidence: PlanReplaceEndpoints says what would be lost.
func (s *Store) ReplaceEndpoints(service syncer.Key, v *Versioned[Endpoints], rv uint64) []Dirty {
	return s.changeWritten(service, func(w *handWritten) bool {
		w.replaceEndpoints(v, rv)
		return true
	})
}

func (w *handWritten) replaceEndpoints(v *Versioned[Endpoints], rv uint64) {
	w.endpointsSequence.replaced(rv)
	w.endpoints, w.exists, w.endpointsKnown = Versioned[Endpoints]{}, v != nil, true
	if v != nil {
		w.endpoints = *v
	}
}

// KeepEndpoints notes that a list or a get at revision rv did not show the
// Endpoints of the Service, and that they are kept nevertheless. Without it, what
// comes after a list from the past would look old.
func (s *Store) KeepEndpoints(service syncer.Key, rv uint64) {
	s.changeWritten(service, func(w *handWritten) bool {
		w.endpointsSequence.replaced(rv)
		w.endpoints.RV = min(w.endpoints.RV, rv)
		return true
	})
}

// UpsertSlice takes in a slice of a watch event. A slice whose label now names
// another Service must be deleted from the one it was in, as the watch of one
// Service's slices does.
func (s *Store) UpsertSlice(v Versioned[Slice]) []Dirty {
	return s.changeWritten(v.Object.service(), func(w *handWritten) bool {
		old, exists := w.slices[v.Object.Name]
		if w.slicesSequence.stale(v.RV, exists, old.RV) {
			return false
		}
		w.setSlice(v)
		return true
	})
}

// DeleteSlice takes in its deletion. Only key, Service and revision count.
func (s *Store) DeleteSlice(v Versioned[Slice]) []Dirty {
	return s.changeWritten(v.Object.service(), func(w *handWritten) bool {
		old, exists := w.slices[v.Object.Name]
		if w.slicesSequence.stale(v.RV, exists, old.RV) {
			return false
		}
		w.slicesSequence.deleted(v.RV)
		w.slices = maps.Clone(w.slices)
		delete(w.slices, v.Object.Name)
		return true
	})
}

// ReplaceSlices takes in a complete list, at revision rv, of the slices of a
// Service; none for a member whose API has no slices. Absence is soft evidence
// here as well.
func (s *Store) ReplaceSlices(service syncer.Key, list []Versioned[Slice], rv uint64) []Dirty {
	listed := make(map[string]Versioned[Slice], len(list))
	for _, v := range list {
		listed[v.Object.Name] = v
	}
	return s.changeWritten(service, func(w *handWritten) bool {
		w.replaceSlices(listed, rv)
		return true
	})
}

func (w *handWritten) replaceSlices(slices map[string]Versioned[Slice], rv uint64) {
	w.slicesSequence.replaced(rv)
	w.slices, w.slicesKnown = slices, true
}

// KeepSlices is KeepEndpoints for all slices of a Service.
func (s *Store) KeepSlices(service syncer.Key, rv uint64) {
	s.changeWritten(service, func(w *handWritten) bool {
		w.slicesSequence.replaced(rv)
		kept := make(map[string]Versioned[Slice], len(w.slices))
		for name, v := range w.slices {
			v.RV = min(v.RV, rv)
			kept[name] = v
		}
		w.slices = kept
		return true
	})
}

// ForgetWritten drops what is known of the hand-written endpoints of a Service,
// when they are watched no longer.
func (s *Store) ForgetWritten(service syncer.Key) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.written[service]
	delete(s.written, service)
	var d dirtyList
	if svc := s.service(service); w != nil && svc != nil && svc.needsWritten() {
		d.add(svc, syncer.Addition)
	}
	return d.sorted()
}

func (s *Slice) service() syncer.Key { return syncer.Key{Namespace: s.Namespace, Name: s.Service} }

// setSlice keeps derived slices as well, without content: their revision counts.
// The map is replaced, since computations read it without the lock.
func (w *handWritten) setSlice(v Versioned[Slice]) {
	w.slices = maps.Clone(w.slices)
	if w.slices == nil {
		w.slices = map[string]Versioned[Slice]{}
	}
	w.slices[v.Object.Name] = v
}

// changeWritten applies a change, which returns false when it is old news, and
// tells the Service if it has one that cares.
func (s *Store) changeWritten(key syncer.Key, change func(*handWritten) bool) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.written[key]
	if w == nil {
		w = &handWritten{}
		s.written[key] = w
	}
	before := *w
	if !change(w) {
		return nil
	}
	svc := s.service(key)
	var d dirtyList
	switch {
	case svc == nil || svc.current.Selector != nil || !w.known():
	case svc.computed():
		// The Service had lost its selector and waited for this.
		s.changeService(svc, svc.current, svc.position(), &d)
		d.add(svc, syncer.Removal)
	case !before.known():
		d.add(svc, syncer.Addition)
	default:
		d.add(svc, writtenEffect(&before, w))
	}
	return d.sorted()
}

// basis returns what the contribution of a new version of a Service is computed
// from. A Service that loses its selector keeps the endpoints that its selector
// gives until what stands in its place is known; there is no gap.
func (s *Store) basis(svc *service, v *syncer.Service) *syncer.Service {
	if v.Selector != nil || v.ExternalName || svc.basis.Selector == nil || s.written[v.Key].known() {
		return v
	}
	if v == svc.current {
		return svc.basis
	}
	kept := *v
	kept.Selector = svc.basis.Selector
	return &kept
}
