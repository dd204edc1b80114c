// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Why all endpoints of a member are Reserve at most.
const (
	ReserveDrained = "drained"
	ReserveStale   = "out of sight"
)

// Give returns what the member gives to a replica now.
func (s *State) Give(replica syncer.Key) Share {
	share := Share{Listed: true}
	delete(s.next, replica)
	if s.stream(Pods, replica.Namespace) == nil {
		return share
	}
	if s.config.Drain {
		share.Reserve = ReserveDrained
	} else if s.stale {
		share.Reserve = ReserveStale
	}
	standing := s.standing(replica) // when the share is given; what follows may come before Keep
	keep := func(e syncer.Endpoint) (syncer.Endpoint, bool) { return s.keep(replica, &e, standing) }
	if standing {
		share.Listed, share.SourceOpen, share.Keep = false, true, keep
		return share
	}
	given, known := s.tables.Contribution(replica, s.Clock())
	if !known {
		return share
	}
	if !given.Next.IsZero() {
		s.next[replica] = given.Next
	}
	if len(s.asking.open) > 0 {
		share.Keep = keep
	}
	share.Given, share.SourceOpen = given, s.asking.of(Services, replica) != nil
	return share
}

// keep returns an endpoint that stands and was not given as it is, but for what its pod says
// itself if that was read; ok is false if it is to go. A pod may have been read since: then the
// replica is compared again, and the endpoint is not to be gone meanwhile.
func (s *State) keep(replica syncer.Key, e *syncer.Endpoint, standing bool) (as syncer.Endpoint, ok bool) {
	pod, _, read := s.tables.Pod(e.Target.Key)
	st := s.stream(Pods, replica.Namespace)
	unread := !read && (s.asking.about(e) || standing && st != nil && !st.stood)
	switch {
	case !podTarget(e):
		return *e, standing
	case s.tables.ByHand(replica): // who writes by hand may name what they like
		return *e, standing && (read || unread)
	case read:
		has := slices.ContainsFunc(pod.IPs, func(ip syncer.PodIP) bool { return ip.Addr.Unmap() == e.Addr })
		same := has && pod.UID == e.Target.UID
		return s.says(pod, e), same && (standing || s.tables.Gives(replica, pod.Key, s.Clock()))
	}
	return *e, unread
}

// says returns an endpoint that stands as its pod lets it: never more than it was. What a rule
// makes of the pod is for its Service to say.
func (s *State) says(pod *syncer.Pod, e *syncer.Endpoint) syncer.Endpoint {
	as := *e
	if pod.Matches != 0 && !pod.Terminating {
		return as
	}
	published := e.Ready && !e.Serving && !e.Terminating // its Service takes every pod for ready
	options := s.config.Options
	options.Now = s.Clock()
	grade, _ := syncer.GradeOf(pod, published, &options)
	as.Grade, as.Terminating = min(e.Grade, grade), pod.Terminating
	if grade == syncer.NotReady {
		as.Ready, as.Serving = published, pod.Ready
	}
	return as
}

// Status is how a member stands.
type Status struct {
	// Listed is true once every share is that of the tables, Stale while no stream has been
	// followed for too long.
	Listed, Stale, Drained bool
	// Missing is how many objects are asked for, Since when the oldest is.
	Missing int
	Since   time.Time
	Streams []StreamStatus // sorted
}

// StreamStatus is how one stream stands.
type StreamStatus struct {
	Scope     Scope
	Following bool
	Err       error // why it is not; nil: it is being listed
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
		all.Streams = append(all.Streams, StreamStatus{scope, s.streams[scope].following, s.streams[scope].err})
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

// Listed reports whether every share is that of the tables.
func (s *State) Listed() bool {
	for key := range s.hand {
		if s.handUnread(key) {
			return false
		}
	}
	return !s.starting()
}

// Open reports whether a question has not had its answer yet.
func (s *State) Open(q Question) bool {
	open := s.asking.of(q.Kind, q.Key)
	return open != nil && open.ID == q.ID
}

// Tables is what was read of the member. It is not to be changed.
func (s *State) Tables() *store.Store { return s.tables }

// Clock is the member's, as far as it is known.
func (s *State) Clock() time.Time { return s.now.Add(s.ahead) }
