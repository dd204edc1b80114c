// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

// Stats are counts of what is held.
type Stats struct {
	Pods     int
	Services int
	// Placed are the Services that contribute to a replica, Replicas those replicas.
	Placed   int
	Replicas int
	// Ready and NotReady count endpoints over all placed Services: a pod behind two
	// Services counts twice. They are read off the pods alone (see podCounts).
	Ready    int
	NotReady int
	// HeldPods and HeldServices were absent from the last list and are kept.
	HeldPods     int
	HeldServices int
	// OutdatedPods counts events, since the start, that were ignored because they were older
	// than what is held.
	OutdatedPods uint64
}

// Stats counts what is held, in time proportional to the number of Services.
func (s *Store) Stats() Stats {
	stats := s.count
	stats.Replicas = len(s.replicas)
	for _, services := range s.replicas {
		for _, svc := range services {
			ready, notReady := s.endpoints(svc)
			stats.Ready += ready
			stats.NotReady += notReady
		}
	}
	return stats
}

// Size is the number of pods and Services.
func (s *Store) Size() (pods, services int) { return s.count.Pods, s.count.Services }

// Shown is Size without what is held against lists.
func (s *Store) Shown() (pods, services int) {
	return s.count.Pods - s.count.HeldPods, s.count.Services - s.count.HeldServices
}
