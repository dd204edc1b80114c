// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// Config is what the configuration says of the member.
type Config struct {
	// Namespaces have a stream of each kind of their own; nil: one stream covers all.
	Namespaces []string
	// Covers reports whether a namespace is followed at all; nil: each is.
	Covers func(namespace string) bool
	// Replicates reports whether a Service is replicated; nil: each is.
	Replicates func(*syncer.Service) bool
	// Selection is what Covers and Replicates say, as one comparable text.
	Selection string
	// Options are those of the endpoint rules, but for Rules and Now.
	Options syncer.Options
	// Bounds are Options as one comparable text.
	Bounds string
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

	pods      *kind[syncer.Pod]
	services  *kind[syncer.Service]
	endpoints *kind[store.HandEndpoints]
	slices    *kind[store.HandSlice]

	areas  map[string]*area     // by the namespace of their streams
	hand   map[syncer.Key]*hand // Services whose endpoints are written by hand
	asking *asking
	stands stands

	// handDue is true when the Services that hand speaks of may be others.
	handDue bool
	// starting is true while what stands is the share of any replica.
	starting bool
	// blind is since when no stream is followed; zero: one is.
	blind time.Time
	stale bool
	// regraded is true when what stands of the member is to be compared as a whole.
	regraded bool
	// next is when time alone changes the grade of an endpoint of a replica, by the
	// member's clock.
	next map[syncer.Key]time.Time
	// wake is not after the moment at which a Tick is due; zero: at no time.
	wake time.Time
}

// New returns the state of a member of which nothing has been read yet.
func New(now time.Time, c Config) *State {
	s := &State{now: now, config: c, blind: now, areas: map[string]*area{}, hand: map[syncer.Key]*hand{},
		asking: newAsking(), stands: newStands(), next: map[syncer.Key]time.Time{}}
	s.tables = store.New(s.storeOptions())
	s.makeKinds()
	s.follow(&step{now: now})
	s.sight(&step{now: now})
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

// Step takes an event in and returns what is to be done because of it. Events of one
// stream come in their order; those of several may come in any.
func (s *State) Step(now time.Time, e Event) Effects {
	s.now = now
	o := &step{now: now}
	switch e := e.(type) {
	case *Seen[syncer.Pod]:
		s.pods.seen(e, o)
		s.settle(e.Scope, o)
	case *Seen[syncer.Service]:
		s.services.seen(e, o)
	case *Seen[store.HandEndpoints]:
		s.endpoints.seen(e, o)
	case *Seen[store.HandSlice]:
		s.slices.seen(e, o)
	case Gone:
		s.kind(e.Scope.Kind).gone(&e, o)
		s.settle(e.Scope, o)
	case At:
		if st := s.kind(e.Scope.Kind).stream(e.Scope); st != nil {
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
		s.services.listed(&e, false, o)
	case Listed[store.HandEndpoints]:
		s.endpoints.listed(&e, false, o)
		s.listedHand(e.Scope)
	case Listed[store.HandSlice]:
		s.slices.listed(&e, false, o)
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
		s.leading(o)
	case Anew:
		s.anew(o)
	case Tick:
		s.tick(e, o)
	}
}

// after does what may follow from any event.
func (s *State) after(o *step) {
	if s.handDue {
		s.handDue = false
		s.follow(o)
	}
	if s.starting {
		o.WantStanding = s.wantStanding() || o.WantStanding
		s.starting = !s.listed()
	}
	if !s.starting && s.asking.empty() && len(s.stands.addrs) > 0 {
		s.stands = newStands()
	}
	s.wakeAt(s.asking.next)
	o.Wake = s.wake
}

// answer takes in what came of a question, if that is still open.
func (s *State) answer(a *Answer, o *step) {
	q := s.asking.closes(a)
	switch {
	case q == nil:
	case a.Outcome == CannotTell || a.Outcome == There && a.Object == nil:
		s.asking.again(q, s.now)
	case a.OfService:
		s.answeredHand(a, q, o)
	default:
		s.kind(a.Kind).answered(a, o)
	}
}

// tick does what time brings.
func (s *State) tick(e Tick, o *step) {
	s.ahead = e.Ahead
	s.wake = time.Time{}
	s.asking.due(s.now, o)
	clock := s.clock()
	for key, at := range s.next {
		if !at.After(clock) {
			delete(s.next, key)
			o.add(key, syncer.Removal, &Cause{Kind: "Cluster", Event: EventTime, Arrived: s.now})
			continue
		}
		s.wakeAt(at.Add(-s.ahead))
	}
	for _, a := range s.areas {
		if at := s.stream(Pods, a).resumed.Add(settle); at.After(s.now) {
			s.wakeAt(at)
		}
	}
	s.eachKind(func(k anyKind) { k.sweep(s.now, s.stands.hasPod) })
}

// clock is the member's, as far as it is known.
func (s *State) clock() time.Time { return s.now.Add(s.ahead) }

// wakeAt has a Tick come at a moment, or before; the zero time is none.
func (s *State) wakeAt(at time.Time) {
	if !at.IsZero() && (s.wake.IsZero() || at.Before(s.wake)) {
		s.wake = at
	}
}

// Wake is when a Tick is due; zero: at no time. Give may bring it forward.
func (s *State) Wake() time.Time { return s.wake }
