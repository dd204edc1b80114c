// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"math"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Config is what the configuration says of the member.
type Config struct {
	// Namespaces have a stream of each kind of their own; nil: one stream covers all. Covers
	// reports whether a namespace is followed, Replicates whether a Service is replicated;
	// nil: each is. Selection is what these three say as one comparable text.
	Namespaces []string
	Covers     func(namespace string) bool
	Replicates func(*syncer.Service) bool
	Selection  string
	// Options are those of the endpoint rules, but for Rules and Now; Bounds is what they say
	// as one comparable text.
	Options syncer.Options
	Bounds  string
	// Rules are those that pods are matched with from now on; nil: none.
	Rules *Rules
	// Drain makes all endpoints of the member Reserve; so does being out of sight for
	// StaleAfter. Zero: never.
	Drain      bool
	StaleAfter time.Duration
}

// Rules are the configuration's rules of one member, by Service. Two are the same only if
// they are one.
type Rules struct {
	For func(*syncer.Service) syncer.Rules
}

// State is what is known of one member. It is not safe for concurrent use.
type State struct {
	config Config
	tables *store.Store
	now    time.Time
	ahead  time.Duration // of the member's clock

	streams   map[Scope]*stream
	pods      *kind[syncer.Pod]
	services  *kind[syncer.Service]
	endpoints *kind[store.HandEndpoints]
	slices    *kind[store.HandSlice]

	areas  map[string]*area     // by the namespace of their streams
	hand   map[syncer.Key]*hand // Services whose endpoints are written by hand
	asking asking
	graves graves
	stands stands

	handDue bool // hand may speak of other Services than it should
	// starting is true while what stands is the share of any replica, wanted while it is waited
	// for, and regraded if all of it is to be compared then.
	starting, wanted, regraded bool
	// blind is since when no stream is followed; zero: one is. stale: for too long.
	blind time.Time
	stale bool
	// next is when time alone changes what a replica gets, by the member's clock; wake is not
	// after the moment at which a Tick is due; zero: at no time.
	next map[syncer.Key]time.Time
	wake time.Time
}

// New returns the state of a member of which nothing has been read yet.
func New(now time.Time, c Config) *State {
	s := &State{}
	s.begin(&step{now: now}, c)
	return s
}

// begin forgets all that is known: what stands of the member is its share until it has been
// read (T5).
func (s *State) begin(o *step, c Config) {
	namespaces := c.Namespaces
	if namespaces == nil {
		namespaces = []string{""}
	}
	*s = State{now: o.now, ahead: s.ahead, config: c, blind: o.now, streams: map[Scope]*stream{}, areas: map[string]*area{},
		asking: asking{open: map[subject]*question{}, last: s.asking.last}, graves: graves{}, stands: newStands(), next: map[syncer.Key]time.Time{}}
	s.tables = store.New(s.storeOptions())
	s.makeKinds()
	for _, namespace := range namespaces {
		s.areas[namespace] = &area{namespace: namespace, rules: c.Rules, news: map[syncer.Key]*Seen[syncer.Service]{}}
		s.streams[Scope{Kind: Pods, Namespace: namespace}] = &stream{}
		s.streams[Scope{Kind: Services, Namespace: namespace}] = &stream{}
	}
	o.Follow, s.starting = true, true
	o.Restart, o.Bulk, o.WantStanding, s.regraded = true, true, true, true
}

// storeOptions are those of the tables: rules are those that the pods were matched with.
func (s *State) storeOptions() store.Options {
	return store.Options{Replicate: s.config.Replicates, Syncer: s.config.Options, Rules: func(svc *syncer.Service) syncer.Rules {
		if a := s.areaOf(svc.Namespace); a != nil && a.rules != nil {
			return a.rules.For(svc)
		}
		return syncer.Rules{}
	}}
}

// Step takes an event in and returns what is to be done because of it. Events of one stream
// come in their order; those of several may come in any.
func (s *State) Step(now time.Time, e Event) Effects {
	s.now = now
	o := &step{now: now}
	switch e := e.(type) {
	case *Seen[syncer.Pod]:
		s.pods.seen(s.streams[e.Scope], e, o)
		s.release(s.areas[e.Scope.Namespace], o)
	case *Seen[syncer.Service]:
		s.seenService(e, o)
	case *Seen[store.HandEndpoints]:
		s.endpoints.seen(s.streams[e.Scope], e, o)
	case *Seen[store.HandSlice]:
		s.slices.seen(s.streams[e.Scope], e, o)
	case Gone:
		s.unwait(&e)
		s.kinds()[e.Scope.Kind].gone(s.streams[e.Scope], &e, o)
		s.release(s.areas[e.Scope.Namespace], o)
	case At:
		if st := s.streams[e.Scope]; st != nil {
			st.at = max(st.at, e.Revision)
		}
		s.release(s.areas[e.Scope.Namespace], o)
	case Answer:
		s.answer(&e, o)
	default:
		s.turn(e, o)
		s.sight(o)
		for _, a := range s.areas {
			s.release(a, o)
		}
	}
	s.after(o)
	return o.effects()
}

// turn takes in what concerns a stream, or the member, as a whole.
func (s *State) turn(e Event, o *step) {
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		s.listedPods(&e, o)
	case Listed[syncer.Service]:
		s.listedServices(&e, o)
	case Listed[store.HandEndpoints]:
		s.endpoints.listed(s.streams[e.Scope], &e, false, o)
	case Listed[store.HandSlice]:
		s.slices.listed(s.streams[e.Scope], &e, false, o)
	case Changed:
		s.changed(e)
	case WentBack:
		s.wentBack(e.Scope)
	case Stood:
		s.stood(e.Replicas, o)
	case Configured:
		s.configure(e.Config, o)
	case Anew:
		if !e.Leading || !s.followed() {
			s.begin(o, s.config)
		}
	case Tick:
		s.tick(e, o)
	}
}

// answer takes in what came of a question, if that is still open.
func (s *State) answer(a *Answer, o *step) {
	q := s.asking.to(a.Question)
	switch {
	case q == nil:
	case a.Outcome == CannotTell || a.Outcome == There && (a.Object == nil || a.Kind == Services && !s.level(s.areaOf(a.Key.Namespace), math.MaxUint64)):
		s.asking.again(q, s.now) // a Service, when its pods are followed
	case a.Kind == SlicesOf:
		s.answeredSlices(a, o)
	default:
		s.kinds()[a.Kind].answered(a, o)
	}
}

// after does what may follow from any event.
func (s *State) after(o *step) {
	if s.handDue {
		s.handDue = false
		s.followHand(o)
	}
	if s.starting {
		over, due := s.starts()
		o.WantStanding = o.WantStanding || due && !s.wanted
		s.starting, s.wanted = !over, s.wanted || o.WantStanding
	}
	if !s.starting && len(s.asking.open) == 0 && len(s.stands.addrs) > 0 {
		s.stands = newStands()
	}
	s.wakeAt(s.asking.next)
}

// tick does what time brings.
func (s *State) tick(e Tick, o *step) {
	s.ahead, s.wake = e.Ahead, time.Time{}
	s.asking.due(o)
	for key, at := range s.next {
		if at = at.Add(-s.ahead); at.After(s.now) {
			s.wakeAt(at)
			continue
		}
		delete(s.next, key)
		o.add(key, syncer.Removal, &Cause{Kind: "Cluster", Event: "time", Arrived: s.now})
	}
	for _, a := range s.areas {
		if st := s.stream(Pods, a); st.settling(s.now) {
			s.wakeAt(st.resumed.Add(settling))
		}
	}
	maps.DeleteFunc(s.graves, func(_ string, dead grave) bool {
		return s.now.Sub(dead.at) > graveTime && !s.stands.hasPod(dead.key)
	})
}

// wakeAt has a Tick come at a moment, or before; the zero time is none.
func (s *State) wakeAt(at time.Time) {
	if !at.IsZero() && (s.wake.IsZero() || at.Before(s.wake)) {
		s.wake = at
	}
}

// configure goes over to another configuration. Another selection is another member, read
// anew; with other rules pods are listed again beside their streams (T7).
func (s *State) configure(c Config, o *step) {
	former := s.config
	if c.Selection != former.Selection {
		s.begin(o, c)
		return
	}
	s.config, o.Bulk = c, true
	if c.Bounds != former.Bounds {
		o.dirty(s.tables.Configure(s.storeOptions()), &Cause{Kind: "Config", Event: "configured", Arrived: s.now})
	}
	for scope := range s.streams {
		if scope.Kind == Pods && c.Rules != former.Rules {
			o.Relist = append(o.Relist, scope)
		}
	}
	if c.Drain != former.Drain {
		s.regrade(o, "configured")
	}
}
