// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

// settling is how long a stream that was interrupted may take to show what happened meanwhile.
const settling = time.Second

// stream is what is known of one stream.
type stream struct {
	phase Phase
	err   error
	// listed is true once it has shown a complete list, reread if its store went back since.
	listed, reread bool
	at             uint64    // the revision that it has reached
	resumed        time.Time // after an interruption, or a list that Services' news overtook
}

// level reports whether the stream has shown all up to a revision, as far as can be told.
func (st *stream) level(revision uint64, now time.Time) bool {
	return st.listed && st.phase == Following && (st.at >= revision || !st.settling(now))
}

func (st *stream) settling(now time.Time) bool { return now.Before(st.resumed.Add(settling)) }

func (s Scope) compare(o Scope) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), strings.Compare(s.Namespace, o.Namespace), strings.Compare(s.Name, o.Name))
}

// Scopes are the streams that are to be followed, sorted: pods are to be read first.
func (s *State) Scopes() []Scope { return slices.SortedFunc(maps.Keys(s.streams), Scope.compare) }

// stream is one of an area's own streams.
func (s *State) stream(kind Kind, a *area) *stream {
	return s.streams[Scope{Kind: kind, Namespace: a.namespace}]
}

// changed takes in what a stream does now.
func (s *State) changed(e Changed) {
	st := s.streams[e.Scope]
	if st == nil {
		return
	}
	if e.Phase == Following && st.phase != Following {
		st.resumed = s.now
		s.wakeAt(s.now.Add(settling))
	}
	st.phase, st.err = e.Phase, e.Err
}

// followed reports whether all streams that have been listed are followed.
func (s *State) followed() bool {
	for _, st := range s.streams {
		if st.listed && st.phase != Following {
			return false
		}
	}
	return true
}

// wentBack has the next list of a stream replace all that is known (T4).
func (s *State) wentBack(scope Scope) {
	if st := s.streams[scope]; st != nil {
		st.reread, st.at = true, 0
		s.asking.postpone(s.now.Add(afterRestore))
	}
}

// sight notes whether the member is out of sight, and for too long (T6).
func (s *State) sight(o *step) {
	following := false
	for _, st := range s.streams {
		following = following || st.phase == Following
	}
	if following {
		s.blind = time.Time{}
	} else if s.blind.IsZero() {
		s.blind = s.now
	}
	limit := s.blind.Add(s.config.StaleAfter)
	waits := s.config.StaleAfter > 0 && !following
	if stale := waits && !s.now.Before(limit); stale != s.stale {
		s.stale = stale
		s.regrade(o, "time")
	}
	if waits && !s.stale {
		s.wakeAt(limit)
	}
}

// regrade has everything of the member compared: its grade is another one.
func (s *State) regrade(o *step, event string) {
	s.compare(nil, &Cause{Kind: "Cluster", Event: event, Arrived: s.now}, o)
	s.regraded, o.WantStanding = s.starting, o.WantStanding || s.starting
}

// compare has all replicas of an area compared; nil: of all areas.
func (s *State) compare(a *area, c *Cause, o *step) {
	o.Bulk = true
	for key := range s.tables.Replicas() {
		if a == nil || s.areaOf(key.Namespace) == a {
			o.add(key, syncer.Addition, c)
		}
	}
}
