// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// makeKinds says what is particular to each kind.
func (s *State) makeKinds() {
	s.pods = newKind(s, Pods, table[syncer.Pod]{
		identity: func(p *syncer.Pod) (syncer.Key, string) { return p.Key, p.UID },
		held:     s.tables.Pod, revision: s.tables.PodRevision,
		set: s.tables.SetPod, remove: s.tables.RemovePod, rows: s.tables.Pods,
		asked:   func(key syncer.Key, _ *syncer.Pod) bool { return s.tables.Endpoint(key) || s.stands.hasPod(key) },
		ended:   func(p *syncer.Pod) bool { return p.Terminal },
		changed: s.podChanged,
		cause:   podCause,
	})
	s.services = newKind(s, Services, table[syncer.Service]{
		identity: func(v *syncer.Service) (syncer.Key, string) { return v.Key, v.UID },
		held:     s.tables.Service, revision: s.tables.ServiceRevision,
		set: s.tables.SetService, remove: s.tables.RemoveService, rows: s.tables.Services,
		waits: s.waits, changed: s.serviceChanged,
	})
	s.endpoints = newKind(s, Endpoints, table[store.HandEndpoints]{
		identity: func(h *store.HandEndpoints) (syncer.Key, string) { return h.Key, h.UID },
		held:     s.tables.Endpoints, revision: revisionOf(s.tables.Endpoints),
		set: s.tables.SetEndpoints, remove: s.tables.RemoveEndpoints, rows: s.tables.EndpointsKeys,
		asked: func(_ syncer.Key, h *store.HandEndpoints) bool { return len(h.Subsets) > 0 },
	})
	s.slices = newKind(s, EndpointSlices, table[store.HandSlice]{
		identity: func(h *store.HandSlice) (syncer.Key, string) { return h.Key, h.UID },
		held:     s.tables.Slice, revision: revisionOf(s.tables.Slice),
		set: s.tables.SetSlice, remove: s.tables.RemoveSlice, rows: s.tables.SliceKeys,
		asked: func(_ syncer.Key, h *store.HandSlice) bool { return !h.Derived && len(h.Content.Endpoints) > 0 },
	})
}

// revisionOf is the revision alone of what is held.
func revisionOf[T Object](held func(syncer.Key) (*T, uint64, bool)) func(syncer.Key) (uint64, bool) {
	return func(key syncer.Key) (uint64, bool) {
		_, revision, ok := held(key)
		return revision, ok
	}
}

// newKind returns a kind without streams; what t leaves out is of no meaning to it.
func newKind[T Object](s *State, of Kind, t table[T]) *kind[T] {
	t.covers = s.covers
	if t.asked == nil {
		t.asked = func(syncer.Key, *T) bool { return true }
	}
	if t.ended == nil {
		t.ended = func(*T) bool { return false }
	}
	if t.waits == nil {
		t.waits = func(syncer.Key, uint64) bool { return false }
	}
	if t.changed == nil {
		t.changed = func(syncer.Key, *T, *T, *Cause, *step) {}
	}
	if t.cause == nil {
		t.cause = func(before, after *T, _ int64) (c Cause) {
			if after == nil {
				after = before
			}
			if after != nil {
				c.Key, c.UID = t.identity(after)
			}
			return c
		}
	}
	return &kind[T]{kind: of, table: t, streams: map[Scope]*stream{}, graves: graves{},
		asking: s.asking, waiting: map[syncer.Key]arrival[T]{}}
}

// kind is the kind of a name.
func (s *State) kind(of Kind) anyKind {
	switch of {
	case Pods:
		return s.pods
	case Services:
		return s.services
	case Endpoints:
		return s.endpoints
	}
	return s.slices
}

// eachKind calls a function for each.
func (s *State) eachKind(do func(anyKind)) {
	for of := range kinds {
		do(s.kind(of))
	}
}
