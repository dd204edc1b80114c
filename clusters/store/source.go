// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// Source is what a Service of this member has, whichever replica it is placed in.
type Source struct {
	// Placed is false for a Service that is not replicated; of such a one nothing else
	// is known.
	Placed bool
	// Ready counts its ready endpoints, as Stats does. Known is false while
	// hand-written ones have not been read.
	Ready int
	Known bool
}

// Source looks a Service up; held is false if there is none.
func (s *Store) Source(key syncer.Key) (src Source, held bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	svc := s.service(key)
	if svc == nil || !svc.placed {
		return Source{}, svc != nil
	}
	src = Source{Placed: true, Known: !svc.needsWritten() || s.written[key].known()}
	src.Ready, _ = s.endpoints(svc)
	return src, true
}

// NotReady returns the pods for which a Service has endpoints that are not ready, as
// they are held, in no order: none for a Service that takes every pod for ready, nor for
// one whose endpoints are written by hand.
func (s *Store) NotReady(service syncer.Key) []Versioned[syncer.Pod] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	svc := s.service(service)
	if svc == nil || !svc.linked || s.publishes(svc) {
		return nil
	}
	var pods []Versioned[syncer.Pod]
	for g := range svc.groups {
		if g.tally.notReady == 0 {
			continue
		}
		for _, rec := range g.pods {
			if !rec.Ready && !rec.Terminal && !rec.Terminating() && hasAddress(&rec.Pod) {
				pods = append(pods, Versioned[syncer.Pod]{Object: rec.Pod, RV: rec.rv})
			}
		}
	}
	return pods
}
