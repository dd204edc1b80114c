// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"iter"
	"slices"
	"time"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// Status is how a member stands.
type Status struct {
	// Listed is true once every share is that of the tables.
	Listed bool
	// Streams are all that are followed, sorted.
	Streams []StreamStatus
	// Missing is how many objects are asked for, since when the oldest is; zero: none.
	Missing int
	Since   time.Time
	// Blind is since when no stream is followed; zero: one is. Stale is true once that is
	// too long.
	Blind          time.Time
	Stale, Drained bool
	// Stats count what the tables have.
	Stats store.Stats
}

// StreamStatus is how one stream stands.
type StreamStatus struct {
	Scope  Scope
	Phase  Phase
	Err    error // why it is Failing or Refused
	Listed bool
}

// Status returns how the member stands. Counting takes a walk over all Services.
func (s *State) Status() Status {
	all := Status{Listed: s.listed(), Missing: len(s.asking.open), Since: s.asking.oldest(),
		Blind: s.blind, Stale: s.stale, Drained: s.config.Drain, Stats: s.tables.Stats(s.clock())}
	for _, scope := range s.Scopes() {
		st := s.kind(scope.Kind).stream(scope)
		all.Streams = append(all.Streams, StreamStatus{scope, st.phase, st.err, st.listed})
	}
	return all
}

// Questions are those that are open, by age.
func (s *State) Questions() (all []Question) {
	for _, q := range s.asking.open {
		all = append(all, q.Question)
	}
	slices.SortFunc(all, func(a, b Question) int { return int(a.ID) - int(b.ID) })
	return all
}

// Open reports whether a question is still to be asked.
func (s *State) Open(q Question) bool { return s.asking.closes(&Answer{Question: q}) != nil }

// Replicas are those that the tables give anything to.
func (s *State) Replicas() iter.Seq[syncer.Key] { return s.tables.Replicas() }

// Tables is what was read of the member. It is not to be changed.
func (s *State) Tables() *store.Store { return s.tables }

// Clock is the member's, as far as it is known.
func (s *State) Clock() time.Time { return s.clock() }
