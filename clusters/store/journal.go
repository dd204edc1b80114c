// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"

	"tributary.dev/tributary/syncer"
)

// Journal is what was touched between two readings of it, whatever touched it. What it
// names need not have changed in the end.
type Journal struct {
	// Pods are pods as they were before; nil is one that was not there. It is empty
	// unless NotePods asked for it.
	Pods map[syncer.Key]*syncer.Pod
	// Services says of each whether its pods made endpoints before.
	Services map[syncer.Key]bool
}

// NotePods says whether the journal is to name pods.
func (s *Store) NotePods(on bool) {
	s.notePods = on
	if !on {
		s.journal.Pods = nil
	}
}

// Touched returns the journal, which begins anew. The caller may keep it.
func (s *Store) Touched() Journal {
	j := s.journal
	s.journal = Journal{}
	return j
}

func (s *Store) notePod(key syncer.Key, before *record) {
	if !s.notePods {
		return
	}
	if s.journal.Pods == nil {
		s.journal.Pods = map[syncer.Key]*syncer.Pod{}
	}
	if _, noted := s.journal.Pods[key]; noted {
		return
	}
	s.journal.Pods[key] = nil
	if before != nil {
		s.journal.Pods[key] = &before.Pod
	}
}

func (s *Store) noteService(svc *service) {
	if s.journal.Services == nil {
		s.journal.Services = map[syncer.Key]bool{}
	}
	if _, noted := s.journal.Services[svc.current.Key]; !noted {
		s.journal.Services[svc.current.Key] = svc.indexed
	}
}

// Selected returns the pods that make the endpoints of a Service, in no order and as As
// has them, and the Service as they are computed from it; nil for one whose endpoints pods do not make.
func (s *Store) Selected(service syncer.Key) (pods iter.Seq[*syncer.Pod], effective *syncer.Service) {
	svc := s.service(service)
	if svc == nil || !svc.indexed {
		return nil, nil
	}
	return func(yield func(*syncer.Pod) bool) {
		for rec := range svc.records {
			if !yield(svc.counted(rec)) {
				return
			}
		}
	}, svc.effective
}

// Selecting returns the Services whose endpoints a pod makes, which need not be held, in
// no order.
func (s *Store) Selecting(p *syncer.Pod) []syncer.Key {
	services := s.selecting(p)
	keys := make([]syncer.Key, len(services))
	for i, svc := range services {
		keys[i] = svc.current.Key
	}
	return keys
}

// Selects reports whether a Service selects a pod, be that kept for others alone.
func (s *Store) Selects(service, pod syncer.Key) bool {
	svc, rec := s.service(service), s.record(pod)
	return svc != nil && svc.indexed && rec != nil && selects(svc.effective.Selector, rec.Labels) && service.Namespace == pod.Namespace
}
