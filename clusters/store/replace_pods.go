// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// PodReplacement is a complete list of pods that has been compared with what is
// held and not been applied. That a pod is absent from a list is weaker evidence
// than its deletion would be: a guard looks at the replacement and says which
// absent pods to keep for now. They are "held": still endpoints, until an event
// or a later list shows them (then they are ordinary pods again), one more list
// is applied without keeping them, or ReleaseHeldPods lets them go.
type PodReplacement struct {
	// Absent are the pods that are held and not in the list, sorted by key.
	Absent []AbsentPod
	// Impact of removing all of them.
	Impact Impact

	store   *Store
	list    []Versioned[syncer.Pod]
	rv      uint64
	records []*record // of Absent
}

// AbsentPod is a pod that a list does not show.
type AbsentPod struct {
	Pod *syncer.Pod
	// Held is true when it was absent before and kept.
	Held bool
	// Reused is true when the list shows another pod with its address that has not
	// finished and did not have it before: traffic for it would go astray. (Pods of
	// the host network share addresses all the time, so those say nothing.)
	Reused bool
}

// applyChunk is the number of objects that are applied under one hold of the
// lock, so that a list of 50,000 delays an event or a computation by about a
// millisecond.
const applyChunk = 500

// PlanReplacePods compares a complete list, read at revision rv (0: unknown),
// with what is held. The list belongs to the store from here on. No event of a
// pod may come between it and Apply.
func (s *Store) PlanReplacePods(list []Versioned[syncer.Pod], rv uint64) *PodReplacement {
	r := &PodReplacement{store: s, list: list, rv: rv}
	listed := make(map[syncer.Key]struct{}, len(list))
	for i := range list {
		listed[list[i].Object.Key] = struct{}{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ns := range s.namespaces {
		for _, rec := range ns.pods {
			if _, ok := listed[rec.Key]; !ok {
				r.records = append(r.records, rec)
			}
		}
	}
	if len(r.records) > 0 {
		r.Impact = s.podImpact(list, r.records)
		r.describe()
	}
	return r
}

// describe fills in Absent. The caller holds the store's lock.
func (r *PodReplacement) describe() {
	slices.SortFunc(r.records, func(a, b *record) int { return a.Key.Compare(b.Key) })
	reused := map[netip.Addr]bool{}
	for _, rec := range r.records {
		for i := range rec.IPs {
			reused[rec.IPs[i].Addr] = false
		}
	}
	for i := range r.list {
		p := &r.list[i].Object
		for j := range p.IPs {
			addr := p.IPs[j].Addr
			if _, ok := reused[addr]; ok && addr.IsValid() && !p.Terminal && !r.store.knows(p.Key, addr) {
				reused[addr] = true
			}
		}
	}
	for _, rec := range r.records {
		again := slices.ContainsFunc(rec.IPs, func(ip syncer.PodIP) bool { return reused[ip.Addr] })
		r.Absent = append(r.Absent, AbsentPod{Pod: &rec.Pod, Held: rec.held, Reused: again})
	}
}

// knows reports whether a pod is held with that address.
func (s *Store) knows(pod syncer.Key, addr netip.Addr) bool {
	rec := s.record(pod)
	return rec != nil && slices.ContainsFunc(rec.IPs, func(ip syncer.PodIP) bool { return ip.Addr == addr })
}

// Apply makes the list the truth, whatever the revisions, and returns the
// replicas whose contribution may have changed. keep says which absent pods are
// held; nil: none, all are removed.
func (r *PodReplacement) Apply(keep func(AbsentPod) bool) []Dirty {
	var drop, hold []*record
	for i, rec := range r.records {
		if keep != nil && keep(r.Absent[i]) {
			hold = append(hold, rec)
		} else {
			drop = append(drop, rec)
		}
	}
	var d dirtyList
	s := r.store
	s.mu.Lock()
	s.podSequence.replaced(r.rv)
	s.mu.Unlock()
	for chunk := range slices.Chunk(r.list, applyChunk) {
		s.mu.Lock()
		for i := range chunk {
			s.setPod(&chunk[i].Object, chunk[i].RV, &d)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	for _, rec := range hold {
		if s.record(rec.Key) == rec {
			s.holdPod(rec, r.rv)
		}
	}
	s.mu.Unlock()
	s.dropPods(drop, &d)
	r.list, r.records = nil, nil
	return d.sorted()
}

// holdPod keeps a pod that is absent from the list at revision rv. Where the
// list went back in time the pod does too, or its next event would look old.
func (s *Store) holdPod(rec *record, rv uint64) {
	rec.rv = min(rec.rv, rv)
	if !rec.held {
		rec.held = true
		s.count.heldPods++
	}
}

// dropPods removes those records that are still what is held.
func (s *Store) dropPods(records []*record, d *dirtyList) {
	for chunk := range slices.Chunk(records, applyChunk) {
		s.mu.Lock()
		for _, rec := range chunk {
			if s.record(rec.Key) == rec {
				s.removePod(rec, d)
			}
		}
		s.mu.Unlock()
	}
}

// ReplacePods applies a complete list and removes what is absent.
func (s *Store) ReplacePods(list []Versioned[syncer.Pod], rv uint64) []Dirty {
	return s.PlanReplacePods(list, rv).Apply(nil)
}

// HeldPods returns the pods that are held, sorted by key.
func (s *Store) HeldPods() []*syncer.Pod {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var pods []*syncer.Pod
	for _, rec := range s.heldRecords() {
		pods = append(pods, &rec.Pod)
	}
	slices.SortFunc(pods, func(a, b *syncer.Pod) int { return a.Key.Compare(b.Key) })
	return pods
}

// ReleaseHeldPods removes the held pods that match; nil: all.
func (s *Store) ReleaseHeldPods(match func(*syncer.Pod) bool) []Dirty {
	s.mu.RLock()
	held := s.heldRecords()
	s.mu.RUnlock()
	if match != nil {
		held = slices.DeleteFunc(held, func(rec *record) bool { return !match(&rec.Pod) })
	}
	var d dirtyList
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range held {
		if rec.held && s.record(rec.Key) == rec { // not confirmed meanwhile
			s.removePod(rec, &d)
		}
	}
	return d.sorted()
}

func (s *Store) heldRecords() []*record {
	if s.count.heldPods == 0 {
		return nil
	}
	var held []*record
	for _, ns := range s.namespaces {
		for _, rec := range ns.pods {
			if rec.held {
				held = append(held, rec)
			}
		}
	}
	return held
}
