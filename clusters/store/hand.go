// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"reflect"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// byHand are objects that people write. Slices are stored of all Services, Endpoints only of those
// that need them, which are replicated and have no selector: every other Service has some as well,
// by its controller. So the Endpoints of a Service that comes to need them have to be read anew.
type byHand[T any] map[syncer.Key]*Versioned[T]

// get returns an object and its revision.
func (b byHand[T]) get(key syncer.Key) (object *T, revision uint64, ok bool) {
	v := b[key]
	if v == nil {
		return nil, 0, false
	}
	return &v.Object, v.Revision, true
}

// in are the keys and revisions of a namespace, or of all.
func (b byHand[T]) in(namespace string) iter.Seq2[syncer.Key, uint64] {
	return func(yield func(syncer.Key, uint64) bool) {
		for key, v := range b {
			if (namespace == "" || namespace == key.Namespace) && !yield(key, v.Revision) {
				return
			}
		}
	}
}

// byHand reports whether endpoints of a Service are written by hand, and needed.
func (svc *service) byHand() bool { return svc.replicated && !svc.selects }

// ByHand reports whether a Service is replicated and has no selector. Whether what is written for
// it has been read is not known here: until it has, a Contribution lacks it.
func (s *Store) ByHand(service syncer.Key) bool {
	svc := s.service(service)
	return svc != nil && svc.byHand()
}

// SetEndpoints stores Endpoints, and ignores those of a Service that does not need them.
func (s *Store) SetEndpoints(v Versioned[HandEndpoints]) []Dirty {
	key := v.Object.Key
	if !s.ByHand(key) {
		return nil
	}
	former, _, held := s.endpoints.get(key)
	s.endpoints[key] = &v
	if held && former.SkipMirror == v.Object.SkipMirror && reflect.DeepEqual(former.Subsets, v.Object.Subsets) {
		return nil
	}
	return []Dirty{{key, syncer.Removal}}
}

// RemoveEndpoints removes Endpoints, if they exist.
func (s *Store) RemoveEndpoints(key syncer.Key) []Dirty {
	if s.endpoints[key] == nil {
		return nil
	}
	delete(s.endpoints, key)
	return []Dirty{{key, syncer.Removal}}
}

// SetSlice stores a slice. It is removed from the Service that its label named before, if that is
// another one, or if a controller has made the slice.
func (s *Store) SetSlice(v Versioned[HandSlice]) (dirty []Dirty) {
	key := v.Object.Key
	former, _, held := s.slices.get(key)
	if held && (v.Object.Derived || former.Service != v.Object.Service) {
		dirty, held = s.RemoveSlice(key), false
	}
	if v.Object.Derived {
		return dirty
	}
	s.slices[key] = &v
	if held && reflect.DeepEqual(former.Content, v.Object.Content) {
		return dirty
	}
	return s.dirtyByHand(dirty, &v.Object)
}

// dirtyByHand adds the Service of a slice to those on which it has an effect.
func (s *Store) dirtyByHand(list []Dirty, of *HandSlice) []Dirty {
	if !s.ByHand(of.ServiceKey()) {
		return list
	}
	return append(list, Dirty{of.ServiceKey(), syncer.Removal})
}

// RemoveSlice removes a slice, if it exists.
func (s *Store) RemoveSlice(key syncer.Key) []Dirty {
	v := s.slices[key]
	if v == nil {
		return nil
	}
	delete(s.slices, key)
	return s.dirtyByHand(nil, &v.Object)
}

// written returns what is written for a Service. It looks through all slices, which are few.
func (s *Store) written(service syncer.Key) (e HandEndpoints, list []syncer.Slice) {
	if v := s.endpoints[service]; v != nil {
		e = v.Object
	}
	for _, v := range s.slices {
		if v.Object.ServiceKey() == service {
			list = append(list, v.Object.Content)
		}
	}
	slices.SortFunc(list, func(a, b syncer.Slice) int { return strings.Compare(a.Name, b.Name) })
	return e, list
}
