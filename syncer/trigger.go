// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"sync/atomic"
	"time"
)

// Trigger gathers what became of the pods of one Service since its endpoints were computed
// last, for the annotation endpoints.kubernetes.io/last-change-trigger-time. It belongs to one
// Service UID: a Service that is recreated begins with the zero value.
//
// It answers as upstream's TriggerTimeTracker in k8s.io/endpointslice/util would if it
// computed at the same moments, with one difference: until something changes again, each
// computation gets the same answer, so that a write that is repeated retains the annotation.
type Trigger struct {
	// before has, for each pod that changed, the ReadySince of the last computation; 0 for one
	// that did not exist. It is nil until the first computation.
	before map[string]int64
	// computed is true while nothing has changed since a computation.
	computed atomic.Bool
}

// Note records a change of a pod that the Service selects, or did: before is its ReadySince
// before the change, 0 where it was not selected. Nobody else may use the Trigger meanwhile.
func (t *Trigger) Note(pod string, before int64) {
	t.Changed()
	if t.before == nil {
		return
	}
	if _, known := t.before[pod]; !known {
		t.before[pod] = before
	}
}

// Changed records a change that has no time, such as that of a Service.
func (t *Trigger) Changed() {
	if t.computed.Swap(false) {
		t.before = map[string]int64{}
	}
}

// Time returns the annotation's value for a computation: at first the Service's creation,
// later the earliest time among the pods that changed that is newer than before; zero when
// there is none, and then upstream removes the annotation. readySince is the ReadySince of a
// pod by its name, 0 where it is not selected. Safe for concurrent use with itself.
func (t *Trigger) Time(svc *Service, readySince func(pod string) int64) time.Time {
	t.computed.Store(true)
	earliest := int64(0)
	if t.before == nil {
		earliest = svc.Created
	}
	for pod, before := range t.before {
		if at := readySince(pod); at > before && (earliest == 0 || at < earliest) {
			earliest = at
		}
	}
	if earliest == 0 {
		return time.Time{}
	}
	return time.Unix(earliest, 0).UTC()
}
