// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Config is what the configuration says of the member.
type Config struct {
	// Namespaces have a stream of each kind of their own; nil: one stream covers all.
	Namespaces []string
	// Covers reports whether a namespace is followed at all, Replicates whether a Service is
	// replicated; nil: each is.
	Covers     func(namespace string) bool
	Replicates func(*syncer.Service) bool
	// Selection is what these three say, and Bounds what Options say, each as one comparable
	// text.
	Selection, Bounds string
	// Options are those of the endpoint rules, but for Rules and Now.
	Options syncer.Options
	// Rules are those that pods are matched with from now on; nil: none.
	Rules *Rules
	// Drain makes all endpoints of the member Reserve; so does being out of sight for
	// StaleAfter. Zero: never.
	Drain      bool
	StaleAfter time.Duration
}

// Rules are the configuration's rules of one member. Two are the same only if they are one.
type Rules struct {
	// For returns the rules of a Service.
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
	stands stands

	// handDue is true when the Services that hand speaks of may be others.
	handDue bool
	// starting is true while what stands is the share of any replica, wanted while it is waited
	// for, and regraded if all of it is to be compared then.
	starting, wanted, regraded bool
	// blind is since when no stream is followed; zero: one is. stale: for too long.
	blind time.Time
	stale bool
	// next is when time alone changes the grade of an endpoint of a replica, by the member's
	// clock.
	next map[syncer.Key]time.Time
	// wake is not after the moment at which a Tick is due; zero: at no time.
	wake time.Time
}

// New returns the state of a member of which nothing has been read yet.
func New(now time.Time, c Config) *State {
	s := &State{now: now, config: c, blind: now, streams: map[Scope]*stream{}, areas: map[string]*area{},
		asking: asking{open: map[subject]*question{}}, stands: newStands(), next: map[syncer.Key]time.Time{}}
	s.tables = store.New(s.storeOptions())
	s.makeKinds()
	o := &step{now: now}
	s.follow(o)
	s.sight(o)
	return s
}

// storeOptions are those of the tables.
func (s *State) storeOptions() store.Options {
	return store.Options{Replicate: s.config.Replicates, Syncer: s.config.Options, Rules: s.rulesOf}
}

// rulesOf are the rules that the pods of a Service were matched with.
func (s *State) rulesOf(svc *syncer.Service) syncer.Rules {
	if a := s.areaOf(svc.Namespace); a != nil && a.rules != nil {
		return a.rules.For(svc)
	}
	return syncer.Rules{}
}

// Step takes an event in and returns what is to be done because of it. Events of one stream
// come in their order; those of several may come in any.
func (s *State) Step(now time.Time, e Event) Effects {
	s.now = now
	o := &step{now: now}
	switch e := e.(type) {
	case *Seen[syncer.Pod]:
		s.pods.seen(s.streams[e.Scope], e, o)
		s.settle(e.Scope, o)
	case *Seen[syncer.Service]:
		s.services.seen(s.streams[e.Scope], e, o)
	case *Seen[store.HandEndpoints]:
		s.endpoints.seen(s.streams[e.Scope], e, o)
	case *Seen[store.HandSlice]:
		s.slices.seen(s.streams[e.Scope], e, o)
	case Gone:
		s.kinds()[e.Scope.Kind].gone(s.streams[e.Scope], &e, o)
		s.settle(e.Scope, o)
	case At:
		if st := s.streams[e.Scope]; st != nil {
			st.reach(e.Revision)
		}
		s.settle(e.Scope, o)
	case Answer:
		s.answer(&e, o)
	default:
		s.turn(e, o)
		s.sight(o)
		s.release(o)
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
		s.services.listed(s.streams[e.Scope], &e, false, o)
	case Listed[store.HandEndpoints]:
		s.endpoints.listed(s.streams[e.Scope], &e, false, o)
		s.listedHand(e.Scope)
	case Listed[store.HandSlice]:
		s.slices.listed(s.streams[e.Scope], &e, false, o)
		s.listedHand(e.Scope)
	case Changed:
		s.changed(e)
	case WentBack:
		s.wentBack(e.Scope)
	case Stood:
		s.stood(e.Replicas, o)
	case Configured:
		s.configure(e.Config, o)
	case Leading:
		s.restart(func(a *area) bool {
			return s.stream(Pods, a).phase != Following || s.stream(Services, a).phase != Following
		}, o)
	case Anew:
		s.restart(func(*area) bool { return true }, o)
	case Tick:
		s.tick(e, o)
	}
}

// answer takes in what came of a question, if that is still open.
func (s *State) answer(a *Answer, o *step) {
	q, at := s.asking.to(a.Question), uint64(0)
	if st := s.over(a.Kind, a.Key); st != nil {
		at = st.at
	}
	switch {
	case q == nil:
	case a.Outcome == CannotTell || a.Outcome == There && a.Object == nil:
		s.asking.again(q, s.now)
	case a.Kind == SlicesOf:
		s.answeredSlices(a, o)
	default:
		s.kinds()[a.Kind].answered(at, a, o)
	}
}

// after does what may follow from any event.
func (s *State) after(o *step) {
	if s.handDue {
		s.handDue = false
		s.follow(o)
	}
	if s.starting {
		s.wantStanding(o)
		s.starting = !s.Listed()
	}
	if !s.starting && s.asking.empty() && len(s.stands.addrs) > 0 {
		s.stands = newStands()
	}
	s.wakeAt(s.asking.next)
	o.Wake = s.wake
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
		o.add(key, syncer.Removal, &Cause{Kind: "Cluster", Event: EventTime, Arrived: s.now})
	}
	for _, a := range s.areas {
		if st := s.stream(Pods, a); st.settling(s.now) {
			s.wakeAt(st.resumed.Add(settling))
		}
	}
	for _, k := range s.kinds() {
		k.sweep(s.now, s.stands.hasPod)
	}
}

// wakeAt has a Tick come at a moment, or before; the zero time is none.
func (s *State) wakeAt(at time.Time) {
	if !at.IsZero() && (s.wake.IsZero() || at.Before(s.wake)) {
		s.wake = at
	}
}
