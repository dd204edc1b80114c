// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Pod returns a pod and its revision.
func (s *Store) Pod(key syncer.Key) (p *syncer.Pod, revision uint64, ok bool) {
	rec := s.record(key)
	if rec == nil {
		return nil, 0, false
	}
	return rec.pod(), rec.revision, true
}

// Service is Pod for a Service.
func (s *Store) Service(key syncer.Key) (v *syncer.Service, revision uint64, ok bool) {
	svc := s.service(key)
	if svc == nil {
		return nil, 0, false
	}
	return svc.value(), svc.revision, true
}

// Endpoints is Pod for hand-written Endpoints; read-only.
func (s *Store) Endpoints(key syncer.Key) (e *HandEndpoints, revision uint64, ok bool) {
	return s.endpoints.get(key)
}

// Slice is Pod for a hand-written slice; read-only.
func (s *Store) Slice(key syncer.Key) (slice *HandSlice, revision uint64, ok bool) {
	return s.slices.get(key)
}

// HasService reports whether a Service is stored.
func (s *Store) HasService(key syncer.Key) bool { return s.service(key) != nil }

// Pods are the pods of a namespace, or of all for "", and their revisions, in no order. The
// Store must not be changed during the iteration; the same is true of the three that follow.
func (s *Store) Pods(in string) iter.Seq2[syncer.Key, uint64] {
	return func(yield func(syncer.Key, uint64) bool) {
		for ns := range s.in(in) {
			for name, rec := range ns.pods {
				if !yield(syncer.Key{Namespace: ns.name, Name: name}, rec.revision) {
					return
				}
			}
		}
	}
}

// Services are the Services of a namespace, or of all.
func (s *Store) Services(in string) iter.Seq2[syncer.Key, uint64] {
	return func(yield func(syncer.Key, uint64) bool) {
		for ns := range s.in(in) {
			for _, svc := range ns.services {
				if !yield(svc.Key, svc.revision) {
					return
				}
			}
		}
	}
}

// EndpointsKeys are the hand-written Endpoints of a namespace, or of all.
func (s *Store) EndpointsKeys(in string) iter.Seq2[syncer.Key, uint64] { return s.endpoints.in(in) }

// SliceKeys are the hand-written slices of a namespace, or of all.
func (s *Store) SliceKeys(in string) iter.Seq2[syncer.Key, uint64] { return s.slices.in(in) }

// Replicas are the replicas that the member contributes to, in no order.
func (s *Store) Replicas() iter.Seq[syncer.Key] {
	return func(yield func(syncer.Key) bool) {
		for svc := range s.replicated {
			if !yield(svc.Key) {
				return
			}
		}
	}
}

// replicated are the Services that have a replica.
func (s *Store) replicated(yield func(*service) bool) {
	for _, ns := range s.namespaces {
		for _, svc := range ns.services {
			if svc.replicated && !yield(svc) {
				return
			}
		}
	}
}

// Endpoint reports whether a pod is an endpoint of some replica of grade Ready or Reserve, as
// far as the pod tells: if it is missing, it is asked for.
func (s *Store) Endpoint(pod syncer.Key) bool {
	rec := s.record(pod)
	if rec == nil {
		return false
	}
	p := rec.pod()
	return slices.ContainsFunc(rec.group.services, func(svc *service) bool {
		options := s.optionsOf(svc, time.Time{})
		grade, listed := syncer.GradeOf(p, svc.PublishNotReadyAddresses, &options)
		return listed && grade >= syncer.Reserve
	})
}

// Contributes reports whether a pod's address is among the endpoints of a replica at a moment by the member's clock.
func (s *Store) Contributes(replica syncer.Key, of *syncer.Endpoint, now time.Time) bool {
	svc, rec := s.replica(replica), s.record(of.Target.Key)
	return svc != nil && rec != nil && slices.Contains(rec.group.services, svc) &&
		slices.ContainsFunc(s.compute(svc, now).Endpoints, func(e syncer.Endpoint) bool { return e.Target == of.Target && e.Addr == of.Addr })
}

// Stats are counts of what is stored.
type Stats struct {
	Pods int
	// Replicas are the Services that are replicated.
	Replicas int
	// Ready, Reserve, NotReady and Terminating count endpoints by grade over all replicas: a
	// pod behind two Services counts twice. They are read off the pods, without a look at
	// ports.
	Ready, Reserve, NotReady, Terminating int
}

// Stats counts what is stored, at a moment by the member's clock, in time proportional to the
// number of endpoints.
func (s *Store) Stats(now time.Time) Stats {
	var t Stats
	for _, ns := range s.namespaces {
		t.Pods += len(ns.pods)
	}
	for svc := range s.replicated {
		t.Replicas++
		if !svc.selects {
			for _, e := range s.compute(svc, now).Endpoints {
				t.count(e.Grade, true, e.Terminating)
			}
			continue
		}
		options := s.optionsOf(svc, now)
		for _, g := range svc.groups {
			for _, rec := range g.pods {
				t.countPod(rec, svc.PublishNotReadyAddresses, &options)
			}
		}
	}
	return t
}

func (t *Stats) countPod(rec *record, publish bool, o *syncer.Options) {
	var ip [1]syncer.PodIP
	p := rec.view(&ip)
	grade, listed := syncer.GradeOf(&p, publish, o)
	t.count(grade, listed, p.Terminating)
}

func (t *Stats) count(grade syncer.Grade, listed, terminating bool) {
	switch {
	case !listed:
	case terminating:
		t.Terminating++
	case grade == syncer.Ready:
		t.Ready++
	case grade == syncer.Reserve:
		t.Reserve++
	default:
		t.NotReady++
	}
}
