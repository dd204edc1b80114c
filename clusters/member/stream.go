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

// stream is the state of one stream.
type stream struct {
	following bool
	err       error
	// listed is true once it has shown a complete list, compared once what is published of the
	// member was compared with that (T5).
	listed, compared bool
	rules            Rules     // that its pods were matched with
	at               uint64    // the revision that it has reached; 0: it is to be listed
	resumed          time.Time // last, after a list or an interruption
}

// settled reports whether the stream has shown what happened while it was interrupted, as far as can be told.
func (st *stream) settled(now time.Time) bool { return !now.Before(st.resumed.Add(settling)) }

func (s Scope) compare(o Scope) int {
	return cmp.Or(cmp.Compare(s.Kind, o.Kind), strings.Compare(s.Namespace, o.Namespace), strings.Compare(s.Name, o.Name))
}

// Scopes are the streams to follow, sorted: pods are read first.
func (s *State) Scopes() []Scope { return slices.SortedFunc(maps.Keys(s.streams), Scope.compare) }

// scope is that of the stream that covers a namespace.
func (s *State) scope(kind Kind, namespace string) Scope {
	if s.config.Namespaces == nil {
		namespace = ""
	}
	return Scope{Kind: kind, Namespace: namespace}
}

// stream returns the stream that covers a namespace; nil: it is not followed.
func (s *State) stream(kind Kind, namespace string) *stream {
	if s.config.Covers != nil && !s.config.Covers(namespace) {
		return nil
	}
	return s.streams[s.scope(kind, namespace)]
}

// Followed reports whether all streams that have been listed are followed, and nothing is asked
// for. If not, another process may have seen more, or had the answer, and written it.
func (s *State) Followed() bool {
	for _, st := range s.streams {
		if st.listed && !st.following {
			return false
		}
	}
	return len(s.asking.open) == 0
}

// sight updates whether the member is out of sight, and for too long (T6).
func (s *State) sight(o *step) {
	following := false
	for _, st := range s.streams {
		following = following || st.following
	}
	if following {
		s.blind = time.Time{}
	} else if s.blind.IsZero() {
		s.blind = s.now
	}
	limit := s.blind.Add(s.config.StaleAfter)
	if stale := s.config.StaleAfter > 0 && !following && !s.now.Before(limit); stale != s.stale {
		s.stale = stale
		s.regrade(nil, "Cluster", "time", o)
	}
}

// rematch switches to the rules that a list of pods was matched with (T7). Pods that are asked for were
// matched with those before: of them counts what is published.
func (s *State) rematch(st *stream, to Rules, o *step) {
	if st.rules == to {
		return
	}
	for of := range s.asking.open {
		if of.kind == Pods && s.stream(Pods, of.key.Namespace) == st {
			s.unread(of.key)
		}
	}
	st.rules = to
	s.tables.Configure(s.storeOptions())
	s.regrade(st, "Config", "configured", o)
}

// regrade has all replicas compared whose pods a stream covers, because their grades may have changed;
// nil: those of all streams. What is in no table is compared when a Published comes.
func (s *State) regrade(pods *stream, kind, event string, o *step) {
	o.Bulk, o.WantPublished = true, o.WantPublished || !s.Listed()
	c := &Cause{Kind: kind, Event: event, Arrived: s.now}
	for key := range s.tables.Replicas() {
		if pods == nil || s.stream(Pods, key.Namespace) == pods {
			o.add(key, syncer.Addition, c)
		}
	}
}
