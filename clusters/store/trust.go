// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// This file is for whoever does not believe all that a member shows.

// RetakePod takes in another reading of a pod that is held as it was last seen:
// it keeps its revision, so that the next event is not taken for an old one. It
// does nothing if another pod of its name is there by now, or if the pod is held
// against a list.
func (s *Store) RetakePod(p *syncer.Pod) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.record(p.Key)
	if rec == nil || rec.UID != p.UID || rec.held {
		return nil
	}
	var d dirtyList
	s.setPod(p, rec.rv, &d)
	return d.sorted()
}

// Size is the number of pods and Services.
func (s *Store) Size() (pods, services int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count.pods, s.count.services
}

// Held is the number of pods and Services that are held against a list.
func (s *Store) Held() (pods, services int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.count.heldPods, s.count.heldServices
}
