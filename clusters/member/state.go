// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Config is what the configuration says of the member.
type Config struct {
	// Namespaces have a stream of each kind of their own; nil: one stream covers all. Covers
	// reports whether a namespace is followed, Replicates whether a Service is replicated;
	// nil: each is. These three never change: others make another State.
	Namespaces []string
	Covers     func(namespace string) bool
	Replicates func(*syncer.Service) bool
	// Options are those of the endpoint rules, but for Rules and Now.
	Options syncer.Options
	// Rules are those that the next lists of pods are matched with; nil: none.
	Rules Rules
	// Drain makes all endpoints of the member Reserve; so does being out of sight for
	// StaleAfter. Zero: never.
	Drain      bool
	StaleAfter time.Duration
}

// Rules are the configuration's rules of one member. Two are the same only if they are one.
type Rules interface {
	// Applies returns which are for a Service, as bits, and Then what each says.
	Applies(*syncer.Service) uint64
	Then() []syncer.Then
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

	asking asking
	// news is that of Services which waits, and hand are those whose endpoints are written by hand.
	news map[syncer.Key]*Shown[syncer.Service]
	hand map[syncer.Key]bool
	// listed is what Listed was when it was last told.
	listed bool
	// stands are the replicas in which a pod stands, where that is not known from the tables.
	stands map[syncer.Key][]syncer.Key
	// blind is since when no stream is followed; zero: one is. stale: for too long.
	blind time.Time
	stale bool
	// next is when time alone changes what a replica gets, by the member's clock.
	next map[syncer.Key]time.Time
}

// New returns the state of a member of which nothing has been read yet: what stands of it is its
// share until it has been (T5).
func New(now time.Time, c Config) *State {
	namespaces := c.Namespaces
	if namespaces == nil {
		namespaces = []string{""}
	}
	s := &State{now: now, config: c, blind: now, streams: map[Scope]*stream{},
		asking: asking{open: map[subject]*question{}, at: map[netip.Addr][]syncer.Key{}},
		news:   map[syncer.Key]*Shown[syncer.Service]{}, hand: map[syncer.Key]bool{},
		stands: map[syncer.Key][]syncer.Key{}, next: map[syncer.Key]time.Time{}}
	s.tables = store.New(s.storeOptions())
	s.makeKinds()
	for _, namespace := range namespaces {
		s.streams[Scope{Kind: Pods, Namespace: namespace}] = &stream{rules: c.Rules}
		s.streams[Scope{Kind: Services, Namespace: namespace}] = &stream{}
	}
	return s
}

// storeOptions are those of the tables: rules are those that the pods were matched with.
func (s *State) storeOptions() store.Options {
	return store.Options{Replicate: s.config.Replicates, Syncer: s.config.Options, Rules: func(svc *syncer.Service) syncer.Rules {
		if st := s.stream(Pods, svc.Namespace); st != nil && st.rules != nil {
			return syncer.Rules{Applies: st.rules.Applies(svc), Then: st.rules.Then()}
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
	case *Shown[syncer.Pod]:
		s.pods.shown(s.streams[e.Scope], e, o)
	case *Shown[syncer.Service]:
		s.shownService(e, o)
	case *Shown[store.HandEndpoints]:
		s.endpoints.shown(s.streams[e.Scope], e, o)
	case *Shown[store.HandSlice]:
		s.slices.shown(s.streams[e.Scope], e, o)
	case Answer:
		s.answer(&e, o)
	case Tick:
		s.tick(e, o)
	default:
		o.Turned = true
		s.turn(e, o)
		s.sight(o)
	}
	s.after(o)
	return o.effects()
}

// turn takes in what concerns a stream, or the member, as a whole.
func (s *State) turn(e Event, o *step) {
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		s.pods.listed(s.streams[e.Scope], &e, s.rematch(&e, o), o)
		s.reuse(o)
	case Listed[syncer.Service]:
		s.listedServices(&e, o)
	case Listed[store.HandEndpoints]:
		s.endpoints.listed(s.streams[e.Scope], &e, false, o)
	case Listed[store.HandSlice]:
		s.slices.listed(s.streams[e.Scope], &e, false, o)
		s.readByHand(e.Scope, o)
	case Changed:
		s.changed(e)
	case WentBack: // the next list replaces all that is known (T4)
		if st := s.streams[e.Scope]; st != nil {
			st.at = 0
			s.asking.postpone(o)
		}
	case Published:
		s.stood(e.Replicas, o)
	case Configured:
		s.configure(e.Config, o)
	}
}

// answer takes in what came of a question, if that is still open.
func (s *State) answer(a *Answer, o *step) {
	pods := s.stream(Pods, a.Key.Namespace) // nil where people name a pod of another namespace by hand
	switch q := s.asking.of(a.Kind, a.Key); {
	case !s.Open(a.Question):
	case a.Outcome == CannotTell || a.Outcome == There && a.Object == nil:
		q.again(o)
	case a.Outcome == There && a.Kind == Pods && pods != nil && a.Rules != pods.rules:
		q.again(o) // a list with these rules is still to come
	default:
		[...]interface{ answered(*Answer, *step) }{s.pods, s.services, s.endpoints, s.slices}[a.Kind].answered(a, o)
	}
}

// after does what may follow from any event.
func (s *State) after(o *step) {
	s.release(o)
	if o.byHand {
		s.followHand()
		o.Turned = true
	}
	if o.Turned {
		before := s.listed
		s.listed = s.Listed()
		o.Listed = s.listed && !before
	}
	if len(s.asking.open) == 0 && len(s.stands) > 0 && s.Listed() {
		s.stands = map[syncer.Key][]syncer.Key{} // a cleared one would keep its room
	}
	if len(s.asking.open) == 0 && len(s.asking.at) > 0 {
		s.asking.at = map[netip.Addr][]syncer.Key{}
	}
}

// tick does what time brings.
func (s *State) tick(e Tick, o *step) {
	s.ahead = e.Ahead
	s.sight(o)
	s.asking.ask(o)
	for key, at := range s.next {
		if !at.After(s.Clock()) {
			delete(s.next, key)
			o.add(key, syncer.Removal, &Cause{Kind: "Cluster", Event: "time", Arrived: s.now})
		}
	}
}

// configure goes over to another configuration. With other rules pods are listed again beside
// their streams (T7).
func (s *State) configure(c Config, o *step) {
	former := s.config
	s.config = c
	s.tables.Configure(s.storeOptions())
	s.regrade("configured", o)
	for scope := range s.streams {
		if scope.Kind == Pods && c.Rules != former.Rules {
			o.Relist = append(o.Relist, scope)
		}
	}
}
