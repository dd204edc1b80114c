// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// Reported is a Service and the pods that it selects.
type Reported struct {
	Service *syncer.Service
	Pods    []*syncer.Pod
	// Held is true when the last list lacked the Service, or one of the pods, and it
	// was kept nevertheless.
	Held bool
}

// Reported returns a placed Service that has a selector; ok is false for any other. The
// caller may change the list, not what it points to.
func (s *Store) Reported(service syncer.Key) (shown Reported, ok bool) {
	svc := s.service(service)
	if svc == nil || !svc.placed || svc.current.Selector == nil {
		return Reported{}, false
	}
	shown = Reported{Service: svc.current, Pods: svc.podList(), Held: svc.held}
	for rec := range svc.records {
		shown.Held = shown.Held || rec.held
	}
	return shown, true
}
