// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Give returns the member's share of a replica, without name and place. Its Keep is called under the
// lock that guards the State.
func (s *State) Give(replica syncer.Key) syncer.Share {
	share := syncer.Share{Listed: true}
	delete(s.next, replica)
	if s.stream(Pods, replica.Namespace) == nil {
		return share
	}
	if s.config.Drain {
		share.Reserve = "drained"
	} else if s.stale {
		share.Reserve = "out of sight"
	}
	asPublished := s.asPublished(replica) // as of now: other events may come before Keep
	keep := func(e syncer.Endpoint) (syncer.Endpoint, bool) { return s.keep(replica, &e, asPublished) }
	if asPublished {
		share.Listed, share.SourceOpen, share.Keep = false, true, keep
		return share
	}
	contribution, known := s.tables.Contribution(replica, s.Clock())
	if !known {
		return share
	}
	if !contribution.Next.IsZero() {
		s.next[replica] = contribution.Next
	}
	if len(s.asking.open) > 0 {
		share.Keep = keep
	}
	share.Given, share.SourceOpen = contribution, s.asking.of(Services, replica) != nil
	return share
}

// keep implements Share.Keep: it returns the endpoint as it is, but for what its pod says itself if
// that was read. The pod may have been read after Give: then the replica is compared again, and the
// endpoint must not be removed meanwhile.
func (s *State) keep(replica syncer.Key, e *syncer.Endpoint, asPublished bool) (as syncer.Endpoint, ok bool) {
	pod, _, read := s.tables.Pod(e.Target.Key)
	st := s.stream(Pods, replica.Namespace)
	noted := slices.Contains(s.publishedIn[e.Target.Key], replica) // or the answer would have nothing compared
	unread := !read && (noted && s.asking.about(e) || asPublished && st != nil && !st.compared)
	switch {
	case !podTarget(e):
		return *e, asPublished
	case s.tables.ByHand(replica): // hand-written endpoints may name any pod
		return *e, asPublished
	case read:
		has := slices.ContainsFunc(pod.IPs, func(ip syncer.PodIP) bool { return ip.Addr.Unmap() == e.Addr })
		same := has && pod.UID == e.Target.UID
		return s.says(replica, pod, e), same && (asPublished || s.tables.Contributes(replica, e, s.Clock()))
	}
	return *e, unread
}

// says returns a published endpoint as its pod allows it, never of a better grade than it has. What
// its Service says is guessed while that is unread: of the rules that match the pod, one that says
// Ready may be for it, and none of the others lifts what the kubelet says.
func (s *State) says(replica syncer.Key, pod *syncer.Pod, e *syncer.Endpoint) syncer.Endpoint {
	as, options := *e, s.config.Options
	options.Now = s.Clock()
	if st := s.stream(Pods, pod.Namespace); st != nil && st.rules != nil {
		options.Rules.Then = st.rules.Then()
		for i, then := range options.Rules.Then {
			if then == syncer.ThenReady {
				options.Rules.Applies |= 1 << i
			}
		}
	}
	svc, _, known := s.tables.Service(replica)
	publish := known && svc.PublishNotReadyAddresses || !known && e.Ready && (!e.Serving || e.Terminating)
	grade, _ := syncer.GradeOf(pod, publish, &options)
	as.Grade, as.Terminating = min(e.Grade, grade), pod.Terminating
	if grade == syncer.NotReady {
		as.Ready, as.Serving = publish, pod.Ready
	}
	return as
}

// ByUpstream is what upstream's rules alone make of a replica's Service and its pods; nil where its share
// does not come from the tables, or no such Service is replicated.
func (s *State) ByUpstream(replica syncer.Key) *syncer.Contribution {
	if s.stream(Pods, replica.Namespace) == nil || s.asPublished(replica) {
		return nil
	}
	return s.tables.ByUpstream(replica)
}

// Status is the state of a member.
type Status struct {
	// Listed is true once every share comes from the tables, Stale while no stream has been
	// followed for too long.
	Listed, Stale bool
	// Missing is how many objects are asked for, Since when the oldest question was opened.
	Missing int
	Since   time.Time
	Streams []Phase // sorted
}

// Status returns the state of the member.
func (s *State) Status() Status {
	all := Status{Listed: s.Listed(), Missing: len(s.asking.open), Stale: s.stale}
	for _, q := range s.asking.open {
		if all.Since.IsZero() || q.since.Before(all.Since) {
			all.Since = q.since
		}
	}
	for _, scope := range s.Scopes() {
		all.Streams = append(all.Streams, Phase{scope, s.streams[scope].following, s.streams[scope].err})
	}
	return all
}

// Questions returns the open questions, the oldest first.
func (s *State) Questions() (all []Question) {
	for _, q := range s.asking.open {
		all = append(all, q.Question)
	}
	slices.SortFunc(all, byID)
	return all
}

// Listed reports whether every share comes from the tables.
func (s *State) Listed() bool {
	for key := range s.hand {
		if s.handUnread(key) {
			return false
		}
	}
	for scope, st := range s.streams {
		if scope.Kind <= Services && !st.compared {
			return false
		}
	}
	return true
}

// Open reports whether a question is still open.
func (s *State) Open(q Question) bool {
	open := s.asking.of(q.Kind, q.Key)
	return open != nil && open.ID == q.ID
}

// Store is how often the member's store was found to be restored: what is followed is to be listed then.
func (s *State) Store() int { return s.store }

// Tables is what was read of the member; read-only.
func (s *State) Tables() *store.Store { return s.tables }

// Clock is the member's clock, as far as it is known.
func (s *State) Clock() time.Time { return s.now.Add(s.ahead) }
