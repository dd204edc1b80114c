// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Config is what the configuration says of the member.
type Config struct {
	// Namespaces have a stream of each kind of their own; nil: one stream covers all. Covers
	// reports whether a namespace is followed, Replicates whether a Service is replicated;
	// nil: each is. These three never change: other values need another State.
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

// Rules are the configuration's rules for one member. They are compared by identity.
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
	store     int // how often it was restored
	pods      *kind[syncer.Pod]
	services  *kind[syncer.Service]
	endpoints *kind[store.HandEndpoints]
	slices    *kind[store.HandSlice]

	asking asking
	// news are the events of Services that wait (due), hand the Services with hand-written endpoints.
	news map[syncer.Key]*Shown[syncer.Service]
	hand map[syncer.Key]bool
	// publishedIn are the replicas in which a pod is published, where the tables do not say so.
	publishedIn map[syncer.Key][]syncer.Key
	// blind is since when no stream is followed; zero: one is. stale: for too long.
	blind time.Time
	stale bool
	// next is when time alone changes the share of a replica, by the member's clock.
	next map[syncer.Key]time.Time
}

// New returns the state of a member of which nothing has been read yet. Until it has been, its share
// is what is published of it (T5).
func New(now time.Time, c Config) *State {
	namespaces := c.Namespaces
	if namespaces == nil {
		namespaces = []string{""}
	}
	s := &State{now: now, config: c, blind: now, streams: map[Scope]*stream{},
		asking: asking{open: map[subject]*question{}, at: map[netip.Addr][]syncer.Key{}},
		news:   map[syncer.Key]*Shown[syncer.Service]{}, hand: map[syncer.Key]bool{},
		publishedIn: map[syncer.Key][]syncer.Key{}, next: map[syncer.Key]time.Time{}}
	s.tables = store.New(s.storeOptions())
	s.makeKinds()
	for _, namespace := range namespaces {
		s.streams[Scope{Kind: Pods, Namespace: namespace}] = &stream{rules: c.Rules}
		s.streams[Scope{Kind: Services, Namespace: namespace}] = &stream{}
	}
	return s
}

// storeOptions are the options of the tables, with the rules that the pods were matched with.
func (s *State) storeOptions() store.Options {
	return store.Options{Replicate: s.config.Replicates, Syncer: s.config.Options, Rules: func(svc *syncer.Service) syncer.Rules {
		if st := s.stream(Pods, svc.Namespace); st != nil && st.rules != nil {
			return syncer.Rules{Applies: st.rules.Applies(svc), Then: st.rules.Then()}
		}
		return syncer.Rules{}
	}}
}

// Step applies an event and returns its effects. Events of one stream come in their order; those
// of different streams may come in any.
func (s *State) Step(now time.Time, e Event) Effects {
	s.now = now
	o := &step{now: now}
	var st *stream
	if e, of := e.(interface{ of() Scope }); of {
		if st = s.streams[e.of()]; st == nil {
			return Effects{} // it was ended meanwhile
		}
	}
	switch e := e.(type) {
	case *Shown[syncer.Pod]:
		s.pods.shown(st, e, o)
	case *Shown[syncer.Service]:
		s.shownService(st, e, o)
	case *Shown[store.HandEndpoints]:
		s.endpoints.shown(st, e, o)
	case *Shown[store.HandSlice]:
		s.slices.shown(st, e, o)
	case Answer:
		s.answer(&e, o)
	case Tick:
		s.tick(e, o)
	default:
		o.ScopesChanged = true
		s.wholly(st, e, o)
		s.sight(o)
	}
	s.after(o)
	return o.effects()
}

// wholly applies an event that concerns a stream, or the member, as a whole.
func (s *State) wholly(st *stream, e Event, o *step) {
	switch e := e.(type) {
	case Listed[syncer.Pod]:
		s.pods.listed(st, &e, st.rules != e.Rules, o)
		s.rematch(st, e.Rules, o)
		s.reuse(o)
	case Listed[syncer.Service]:
		s.listedServices(st, &e, o)
	case Listed[store.HandEndpoints]:
		s.endpoints.listed(st, &e, false, o)
	case Listed[store.HandSlice]:
		s.slices.listed(st, &e, false, o)
		s.readByHand(e.Scope, o)
	case Phase:
		if e.Following && !st.following {
			st.resumed = s.now
		}
		st.following, st.err = e.Following, e.Err
	case WentBack: // the next list replaces all that is known (T4), of the other streams, too: they have one store
		if !s.asking.from.After(s.now) { // each of them finds it, too: the first within a minute speaks for all
			s.store++
			for _, other := range s.streams {
				other.at, other.following = 0, false
			}
		}
		st.at = 0
		s.asking.postpone(o)
	case Published:
		s.comparePublished(e, o)
	case Configured:
		s.config = e.Config
		s.tables.Configure(s.storeOptions())
		s.regrade(nil, "Cluster", "configured", o)
	}
}

// answer applies the answer to a question, if that is still open.
func (s *State) answer(a *Answer, o *step) {
	if s.asking.asked--; a.Busy {
		s.asking.less += (mostAsked - s.asking.less) / 2
	} else {
		s.asking.less = max(0, s.asking.less-1)
	}
	pods := s.stream(Pods, a.Key.Namespace) // nil for a hand-written endpoint with a pod of another namespace
	switch q := s.asking.of(a.Kind, a.Key); {
	case !s.Open(a.Question):
	case a.Object == nil && !a.Gone,
		a.Object != nil && a.Kind == Pods && pods != nil && a.Rules != pods.rules: // a list with these is still to come
		q.again(o)
	default:
		[...]interface{ answered(*Answer, *step) }{s.pods, s.services, s.endpoints, s.slices}[a.Kind].answered(a, o)
	}
}

// after does what any event may require.
func (s *State) after(o *step) {
	s.release(o)
	if o.byHand {
		s.followHand()
		o.ScopesChanged = true
	}
	if len(s.asking.open) == 0 && len(s.asking.at)+len(s.publishedIn) > 0 { // clear would not free their memory
		s.asking.at = map[netip.Addr][]syncer.Key{}
		if s.Listed() && len(s.news) == 0 { // a Service that waits is as published
			s.publishedIn = map[syncer.Key][]syncer.Key{}
		}
	}
	slices.SortFunc(o.Ask, byID)
	due := append(s.asking.waiting, o.Ask...)
	o.Ask = nil
	for ; len(due) > 0 && s.asking.asked < mostAsked-s.asking.less; due = due[1:] {
		if s.Open(due[0]) {
			s.asking.asked++
			o.Ask = append(o.Ask, due[0])
		}
	}
	s.asking.waiting = due
}

// tick does what is due by now.
func (s *State) tick(e Tick, o *step) {
	s.ahead = e.Ahead
	s.sight(o)
	for _, q := range s.asking.open {
		if !q.due.IsZero() && !q.due.After(o.now) {
			q.ask(o)
		}
	}
	for key, at := range s.next {
		if !at.After(s.Clock()) {
			delete(s.next, key)
			o.add(key, syncer.Removal, &Cause{Kind: "Cluster", Event: "time", Arrived: s.now})
		}
	}
}
