// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
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
	// Stale is true once no stream was followed for too long.
	Stale, Drained bool
}

// StreamStatus is how one stream stands.
type StreamStatus struct {
	Scope Scope
	Phase Phase
	Err   error // why it is Failing or Refused
}

// Status returns how the member stands.
func (s *State) Status() Status {
	all := Status{Listed: s.Listed(), Missing: len(s.asking.open), Stale: s.stale, Drained: s.config.Drain}
	for _, q := range s.asking.open {
		if all.Since.IsZero() || q.since.Before(all.Since) {
			all.Since = q.since
		}
	}
	for _, scope := range s.Scopes() {
		all.Streams = append(all.Streams, StreamStatus{scope, s.streams[scope].phase, s.streams[scope].err})
	}
	return all
}

// Questions are those that are open, the oldest first.
func (s *State) Questions() (all []Question) {
	for _, q := range s.asking.open {
		all = append(all, q.Question)
	}
	slices.SortFunc(all, func(a, b Question) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Open reports whether a question is still to be asked.
func (s *State) Open(q Question) bool { return s.asking.to(q) != nil }

// Replicas are those that the tables give anything to.
func (s *State) Replicas() iter.Seq[syncer.Key] { return s.tables.Replicas() }

// Tables is what was read of the member. It is not to be changed.
func (s *State) Tables() *store.Store { return s.tables }

// Clock is the member's, as far as it is known.
func (s *State) Clock() time.Time { return s.now.Add(s.ahead) }

// Wake is when a Tick is due; zero: at no time. Give may bring it forward.
func (s *State) Wake() time.Time { return s.wake }
