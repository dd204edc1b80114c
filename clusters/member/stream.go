// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/next/syncer"
)

// settle is how long a stream that was interrupted may take to show what happened meanwhile.
const settle = time.Second

// stream is what is known of one stream.
type stream struct {
	phase Phase
	err   error
	// listed is true once it has shown a complete list since the start.
	listed bool
	// reread is true from when the store went back until the next list.
	reread bool
	// at is the revision that it has reached; floor is the one it had when a list beside it was
	// asked for, which that list must reach.
	at, floor uint64
	// resumed is when it went on after an interruption without a list; zero after a list.
	resumed time.Time
}

// reach notes a revision that the stream shows.
func (st *stream) reach(revision uint64) { st.at = max(st.at, revision) }

// level reports whether what the stream has shown reaches up to a revision, as far as anybody
// can tell.
func (st *stream) level(revision uint64, now time.Time) bool {
	return st.listed && st.phase == Following &&
		(st.resumed.IsZero() || st.at >= revision || !now.Before(st.resumed.Add(settle)))
}

func (s Scope) compare(o Scope) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), strings.Compare(s.Namespace, o.Namespace), strings.Compare(s.Name, o.Name))
}

// Scopes are the streams that are to be followed, sorted: pods first, for these are to be
// read first.
func (s *State) Scopes() (all []Scope) {
	s.eachKind(func(k anyKind) { all = append(all, k.scopes()...) })
	slices.SortFunc(all, Scope.compare)
	return all
}

// follow makes the areas and streams those that the configuration and the Services without a
// selector need.
func (s *State) follow(o *step) {
	namespaces := s.config.Namespaces
	if namespaces == nil {
		namespaces = []string{""}
	}
	wanted := map[Scope]bool{}
	for _, namespace := range namespaces {
		if s.areas[namespace] == nil {
			s.areas[namespace] = &area{namespace: namespace, rules: s.config.Rules}
			s.starting = true
		}
		wanted[Scope{Kind: Pods, Namespace: namespace}] = true
		wanted[Scope{Kind: Services, Namespace: namespace}] = true
	}
	maps.DeleteFunc(s.areas, func(namespace string, _ *area) bool { return !slices.Contains(namespaces, namespace) })
	s.wantHand(wanted, o)
	s.eachKind(func(k anyKind) { o.Follow = k.want(wanted) || o.Follow })
}

// stream is one of an area's own streams.
func (s *State) stream(kind Kind, a *area) *stream {
	return s.kind(kind).stream(Scope{Kind: kind, Namespace: a.namespace})
}

// changed takes in what a stream does now.
func (s *State) changed(e Changed) {
	st := s.kind(e.Scope.Kind).stream(e.Scope)
	if st == nil {
		return
	}
	if e.Phase == Following && st.phase != Following {
		st.resumed = s.now
		s.wakeAt(s.now.Add(settle))
	}
	st.phase, st.err = e.Phase, e.Err
}

// sight notes whether the member is out of sight, and for too long (T6).
func (s *State) sight(o *step) {
	following := false
	s.eachKind(func(k anyKind) { following = following || k.follows() })
	switch {
	case following:
		s.blind = time.Time{}
	case s.blind.IsZero():
		s.blind = s.now
	}
	limit := s.config.StaleAfter
	stale := limit > 0 && !s.blind.IsZero() && !s.now.Before(s.blind.Add(limit))
	if stale != s.stale {
		s.stale = stale
		s.regrade(o, EventTime)
	}
	if limit > 0 && !s.blind.IsZero() && !stale {
		s.wakeAt(s.blind.Add(limit))
	}
}

// regrade has everything of the member compared: its grade is another one.
func (s *State) regrade(o *step, event string) {
	o.Bulk = true
	c := &Cause{Kind: "Cluster", Event: event, Arrived: s.now}
	for key := range s.tables.Replicas() {
		o.add(key, syncer.Addition, c)
	}
	if !s.listed() {
		s.regraded, o.WantStanding = true, true
	}
}

// wentBack has the next list of a scope replace all that is known (T4).
func (s *State) wentBack(scope Scope) {
	k := s.kind(scope.Kind)
	if st := k.stream(scope); st != nil {
		st.reread, st.at = true, 0
		s.asking.postpone(s.now.Add(afterRestore))
	}
}
