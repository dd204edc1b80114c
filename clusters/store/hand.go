// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// handTable has what is written by hand for the Services that need it: those that are
// replicated and have no selector. Of others nothing is kept, so one that comes to need it
// is to be read anew.
type handTable struct {
	of map[syncer.Key]*hand
	// owners are the Services that slices were last seen to belong to: the label that
	// says so can be changed.
	owners map[syncer.Key]syncer.Key
}

// hand is what is written for one Service.
type hand struct {
	endpoints *Versioned[HandEndpoints] // nil: there are none
	slices    map[string]*Versioned[HandSlice]
}

func newHandTable() handTable {
	return handTable{of: map[syncer.Key]*hand{}, owners: map[syncer.Key]syncer.Key{}}
}

// need notes whether a Service needs what is written by hand.
func (t *handTable) need(svc *service) {
	if !svc.replicated || svc.computed() {
		t.forget(svc.key())
	} else if t.of[svc.key()] == nil {
		t.of[svc.key()] = &hand{slices: map[string]*Versioned[HandSlice]{}}
	}
}

func (t *handTable) forget(service syncer.Key) {
	if h := t.of[service]; h != nil {
		delete(t.of, service)
		for name := range h.slices {
			delete(t.owners, syncer.Key{Namespace: service.Namespace, Name: name})
		}
	}
}

// ByHand reports whether a Service is replicated and has no selector. Whether what is written for
// it has been read is not known here: until it has, a Contribution lacks it.
func (s *Store) ByHand(service syncer.Key) bool { return s.hand.of[service] != nil }

// SetEndpoints takes in Endpoints. Those of a Service that does not need them are nothing.
func (s *Store) SetEndpoints(v Versioned[HandEndpoints]) []Dirty {
	return s.changeHand(v.Object.Key, func(h *hand) { h.endpoints = &v })
}

// RemoveEndpoints takes out Endpoints, if they are there.
func (s *Store) RemoveEndpoints(key syncer.Key) []Dirty {
	return s.changeHand(key, func(h *hand) { h.endpoints = nil })
}

// SetSlice is SetEndpoints for a slice. One whose label names another Service than before
// leaves the one it was in, and so does one that a controller has made.
func (s *Store) SetSlice(v Versioned[HandSlice]) []Dirty {
	slice, service := v.Object.Key, v.Object.ServiceKey()
	var left []Dirty
	if former, owned := s.hand.owners[slice]; owned && (former != service || v.Object.Derived) {
		left = s.RemoveSlice(slice)
	}
	if v.Object.Derived || s.hand.of[service] == nil {
		return left
	}
	s.hand.owners[slice] = service
	return append(left, s.changeHand(service, func(h *hand) { h.slices[slice.Name] = &v })...)
}

// RemoveSlice takes out a slice, if it is there.
func (s *Store) RemoveSlice(key syncer.Key) []Dirty {
	service, owned := s.hand.owners[key]
	if !owned {
		return nil
	}
	delete(s.hand.owners, key)
	return s.changeHand(service, func(h *hand) { delete(h.slices, key.Name) })
}

// slice returns a slice that is held, or nil.
func (s *Store) slice(key syncer.Key) *Versioned[HandSlice] {
	if h := s.hand.of[s.hand.owners[key]]; h != nil {
		return h.slices[key.Name]
	}
	return nil
}

// changeHand applies a change to what is written for a Service that needs it.
func (s *Store) changeHand(key syncer.Key, change func(*hand)) []Dirty {
	h := s.hand.of[key]
	if h == nil {
		return nil
	}
	before := hand{endpoints: h.endpoints, slices: maps.Clone(h.slices)}
	change(h)
	if sameHand(&before, h) {
		return nil
	}
	var d dirtyList
	d.add(s.service(key), syncer.Removal)
	return d.sorted()
}

// written are the hand-written Endpoints, if there are any.
func (h *hand) written() (e HandEndpoints) {
	if h.endpoints != nil {
		return h.endpoints.Object
	}
	return e
}

// sorted are the contents of the slices by name.
func (h *hand) sorted() []syncer.Slice {
	list := make([]syncer.Slice, 0, len(h.slices))
	for _, v := range h.slices {
		list = append(list, v.Object.Content)
	}
	slices.SortFunc(list, func(a, b syncer.Slice) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func sameHand(a, b *hand) bool {
	x, y := a.written(), b.written()
	return x.SkipMirror == y.SkipMirror && reflect.DeepEqual(x.Subsets, y.Subsets) && reflect.DeepEqual(a.sorted(), b.sorted())
}
