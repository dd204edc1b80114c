// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// Explained is a Service with what becomes of each of its pods.
type Explained struct {
	Service *syncer.Service
	// Replica is where it is placed; Placed is false where it is not replicated. Then no
	// pods are told.
	Replica syncer.Key
	Placed  bool
	// Held is true while lists lack the Service and it is kept.
	Held bool
	// Manual is true where endpoints are written by hand, not computed from pods; Ready
	// and NotReady count them then.
	Manual          bool
	Ready, NotReady int
	Pods            []ExplainedPod
}

// ExplainedPod is a pod that a Service selects.
type ExplainedPod struct {
	syncer.Pod
	syncer.Verdict
	// Held is true while lists lack the pod and it is kept.
	Held bool
	// Decision is what rules make of it. Suspended is what they would make of it but for a
	// hold; where there is none, it is the same.
	Decision, Suspended Decision
}

// explainPod says what becomes of a pod for a Service.
func (s *Store) explainPod(svc *service, rec *record) ExplainedPod {
	out := ExplainedPod{Pod: rec.Pod, Held: rec.held, Decision: none, Suspended: none}
	if r := svc.rulings[rec.Name]; r != nil {
		out.Decision, out.Suspended = r.applied, r.decided()
	}
	if as := svc.as(rec); as != nil {
		out.Verdict = syncer.Explain(svc.effective, as, s.options)
	}
	return out
}

// Explain says what becomes of a Service and its pods, which are sorted by name; found
// is false for one that is not known.
func (s *Store) Explain(key syncer.Key) (out Explained, found bool) {
	svc := s.service(key)
	if svc == nil {
		return out, false
	}
	out = Explained{Service: svc.current, Replica: svc.replica, Placed: svc.placed, Held: svc.held}
	if !svc.placed {
		return out, true
	}
	out.Ready, out.NotReady = s.endpoints(svc)
	if out.Manual = !svc.computed(); out.Manual {
		return out, true
	}
	for rec := range svc.records {
		out.Pods = append(out.Pods, s.explainPod(svc, rec))
	}
	slices.SortFunc(out.Pods, func(a, b ExplainedPod) int { return a.Key.Compare(b.Key) })
	return out, true
}
