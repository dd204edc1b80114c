// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// makeKinds says what is particular to each kind.
func (s *State) makeKinds() {
	t := s.tables
	s.pods = newKind(s, Pods, table[syncer.Pod]{
		identity: func(p *syncer.Pod) (syncer.Key, string) { return p.Key, p.UID },
		held:     t.Pod, revision: t.PodRevision, set: t.SetPod, remove: t.RemovePod, rows: t.Pods,
		asked:    func(key syncer.Key, _ *syncer.Pod) bool { return t.Endpoint(key) || s.stands.hasPod(key) },
		changed:  s.podChanged,
		describe: describePod,
	})
	s.services = newKind(s, Services, table[syncer.Service]{
		identity: func(v *syncer.Service) (syncer.Key, string) { return v.Key, v.UID },
		held:     t.Service, revision: t.ServiceRevision, set: t.SetService, remove: t.RemoveService, rows: t.Services,
		asked:   func(syncer.Key, *syncer.Service) bool { return true },
		changed: s.serviceChanged,
	})
	s.services.waits = s.waits
	s.endpoints = newKind(s, Endpoints, table[store.HandEndpoints]{
		identity: func(h *store.HandEndpoints) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Endpoints, set: t.SetEndpoints, remove: t.RemoveEndpoints, rows: t.EndpointsKeys,
		asked: func(_ syncer.Key, h *store.HandEndpoints) bool { return len(h.Subsets) > 0 },
	})
	s.slices = newKind(s, EndpointSlices, table[store.HandSlice]{
		identity: func(h *store.HandSlice) (syncer.Key, string) { return h.Key, h.UID },
		held:     t.Slice, set: t.SetSlice, remove: t.RemoveSlice, rows: t.SliceKeys,
		asked: func(_ syncer.Key, h *store.HandSlice) bool { return len(h.Content.Endpoints) > 0 },
	})
}

// newKind returns a kind. What t leaves out means nothing to it.
func newKind[T Object](s *State, of Kind, t table[T]) *kind[T] {
	t.covers = func(namespace string) bool { return s.areaOf(namespace) != nil }
	t.waits = func(syncer.Key, uint64) bool { return false }
	if t.revision == nil {
		t.revision = func(key syncer.Key) (uint64, bool) {
			_, revision, ok := t.held(key)
			return revision, ok
		}
	}
	if t.changed == nil {
		t.changed = func(syncer.Key, *T, *T, *Cause, *step) {}
	}
	if t.describe == nil {
		t.describe = func(*Cause, *T, *T, int64) {}
	}
	return &kind[T]{kind: of, table: t, asking: &s.asking, graves: graves{}, waiting: map[syncer.Key]arrival[T]{}}
}

// anyKind is what all kinds have that needs no type.
type anyKind interface {
	gone(*stream, *Gone, *step)
	answered(at uint64, a *Answer, o *step)
	forget(covers func(syncer.Key) bool)
	sweep(now time.Time, stands func(syncer.Key) bool)
}

// kinds are all kinds, by Kind.
func (s *State) kinds() [4]anyKind { return [...]anyKind{s.pods, s.services, s.endpoints, s.slices} }

// describePod says what became of a pod, and when by the member's own clock.
func describePod(c *Cause, before, after *syncer.Pod, written int64) {
	var second int64
	switch {
	case after == nil:
		c.State = "gone"
		after = before
	case after.Terminating:
		c.State = "terminating"
		if before == nil || !before.Terminating {
			second = written
		}
	default:
		c.State = "not ready"
		if after.Ready {
			c.State = "ready"
		}
		if before == nil && after.Ready || before != nil && before.Ready != after.Ready {
			second = after.ReadySince
		}
	}
	if second != 0 {
		c.SourceTime = time.Unix(second, 0)
	}
	if after != nil && len(after.IPs) > 0 {
		c.IP = after.IPs[0].Addr.String()
	}
}
