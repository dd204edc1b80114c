// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// State is what one member shows and how far it is believed. It is not safe for
// concurrent use: whoever has it lets one Step at a time in, and readers between
// steps.
type State struct {
	cfg   Config
	dice  *rand.Rand
	store *store.Store
	piece int // how many objects of a list are looked at in one step
	// sampled is how many absent objects are asked for, where there are more.
	sampled int
	view    View
	reach   reachability

	// listed are the kinds that were read whole, or cannot be; synced is true once all
	// that counts has been. since is when the member was first reached.
	listed [kinds]bool
	synced bool
	since  time.Time
	// lists are in progress; due is when a kind is to be listed again, zero: not.
	// tries counts the lists in a row that settled nothing.
	lists [kinds]anyList
	due   [kinds]time.Time
	// short is true for a kind of whose last list rules need more than was read of an object.
	short    [kinds]bool
	listedAt [kinds]time.Time
	tries    [kinds + 1]int
	crowds   [kinds]crowd

	// What lists lack and is kept, by object, by replica and by address; see
	// absence.go. taken is what lists took within window.
	absent    map[object]*absence
	holds     map[syncer.Key]*hold
	addresses map[netip.Addr][]*absence
	inquiries [kinds + 1]*inquiry
	// believed is what the last list of a kind took, until its inquiry has ended.
	believed [kinds + 1][]*absence
	// removed are objects that went without a stream's telling, until a list clears them.
	removed map[object]removed
	// contradicted is since when a kind's lists are known to lack what is there.
	contradicted [kinds + 1]time.Time
	taken        []loss

	// out are the effects of the step under way, room is for Changes, podEvents the table
	// for events: see BenchmarkPodEvent.
	out       Effects
	room      []Change
	podEvents pods

	baseline   baseline
	quarantine quarantine
	readiness  readiness
	damping    damping
	ruling     ruling

	departures departures

	// rescoped is true while the pods of other namespaces than before have not been read;
	// unread are Services that came into sight meanwhile, or while theirs were out of sight;
	// selectors are those that go by their former selectors for that.
	rescoped  bool
	unread    map[syncer.Key]bool
	selectors map[syncer.Key]bool

	leftOut leftOut // namespaces that are refused
	hidden  hidden

	manualEdits uint64
	seen        time.Time // when the member was last up
	logged      logged
	lastErr     error
	lastErrAt   time.Time
}

// New returns the state of a member of which nothing is known. The same seed and the
// same events have the same effects.
func New(now time.Time, c Config, seed uint64) *State {
	return &State{
		cfg: c, dice: rand.New(rand.NewPCG(seed, 0)),
		store: store.New(store.Options{Placement: c.Placement, Rules: c.Rules}),
		piece: usualPiece, sampled: usualSample,
		view:  View{State: Connecting, Since: now},
		reach: reachability{contact: now}, seen: now,
		absent: map[object]*absence{}, holds: map[syncer.Key]*hold{}, addresses: map[netip.Addr][]*absence{}, removed: map[object]removed{},
	}
}

// Step takes in an event that came at a moment, and returns what is to be done. now
// never goes back.
func (s *State) Step(now time.Time, e Event) Effects {
	s.out = Effects{Changes: s.room}
	out := &s.out
	switch e := e.(type) {
	case *Seen[syncer.Pod]:
		seen(s, now, &s.podEvents, e, out)
	case *Gone[syncer.Pod]:
		gone(s, now, &s.podEvents, e, out)
	case *Seen[syncer.Service]:
		seen(s, now, services{}, e, out)
	case *Gone[syncer.Service]:
		gone(s, now, services{}, e, out)
	case *Seen[store.Endpoints]:
		seen(s, now, &manual[store.Endpoints]{}, e, out)
	case *Gone[store.Endpoints]:
		gone(s, now, &manual[store.Endpoints]{}, e, out)
	case *Seen[store.Slice]:
		seen(s, now, &manual[store.Slice]{}, e, out)
	case *Gone[store.Slice]:
		gone(s, now, &manual[store.Slice]{}, e, out)
	case *Seen[store.Node]:
		s.nodeSeen(now, e, out)
	case *Gone[store.Node]: // its pods outlive it for a while: the zone stays
		s.reach.contact = now
	case Listed[syncer.Pod]:
		s.damping.clock.set(now, e.Clock)
		beginList(s, now, &pods{}, e, out)
	case Listed[syncer.Service]:
		beginList(s, now, services{}, e, out)
	case Listed[store.Node]:
		s.nodesListed(now, e, out)
	case Listed[store.Endpoints]:
		beginManual(s, now, e, out)
	case Listed[store.Slice]:
		beginManual(s, now, e, out)
	case Continue:
		s.continueList(now, e.Kind, out)
	case Answer:
		s.answered(now, e, out)
	case Return:
		s.keepOne(now, e.Replica, out)
	case Tick:
		s.tick(now, out)
	case Release:
		s.release(now, e.Replica, out)
	case Baseline:
		s.baseline.set(e)
		s.store.GuessZones(e.zones())
		s.damping.begin(e.Replicas)
		if !e.PanicAt.IsZero() {
			s.readiness.enter(e.PanicAt)
		}
		s.dropAll(s.baseline.departed(e.Gone), Cause{Kind: "Pod", Event: "deleted"}, out)
	case Leading:
		s.takeOver(now, e, out)
	case Enforce:
		s.enforce(now, out)
	case Rescoped:
		s.rescope()
	case Configured:
		s.configure(now, e.Config, out)
	default:
		s.reached(now, e, out)
	}
	if edits := s.store.ManualEdits(); edits != s.manualEdits {
		s.manualEdits, out.Manual = edits, true
		s.forgetManual()
	}
	s.checkSelectors(now, out)
	s.damp(now, out)
	s.noteGiven(out)
	s.judge(now, out)
	out.Work = s.ruling.work != nil || s.beginRules()
	if len(out.Changes) > 0 {
		s.room = nil
	} else {
		out.Changes = nil
	}
	return s.out
}

// Reuse gives back the room of effects that were carried out: nobody has their Changes
// any more.
func (s *State) Reuse(e Effects) {
	if len(e.Changes) > 0 {
		clear(e.Changes)
		s.room = e.Changes[:0]
	}
}

// configure takes in another configuration.
func (s *State) configure(now time.Time, c Config, out *Effects) {
	former := s.cfg
	s.cfg = c
	if former.MaxObjects != c.MaxObjects {
		for i := range s.crowds { // what there is room for by another limit is listed at once
			s.crowds[i].asked = time.Time{}
		}
	}
	dirty := s.store.SetPlacement(c.Placement)
	s.moved(nil)
	if !reflect.DeepEqual(former.Rules, c.Rules) {
		dirty = append(dirty, s.store.SetRules(c.Rules)...)
	}
	s.announce(out, Change{Cause: Cause{Kind: "Config", Event: "config"}, Dirty: dirty, Bulk: true})
	if deciderID(former.Decider) == deciderID(c.Decider) {
		s.cfg.Decider, s.cfg.KeptSince = former.Decider, former.KeptSince
	} else {
		s.changeRules(now, former, out)
	}
	s.redamp(now, out)
}

// announce tells of a change. Until the member was read whole, half of its pods would
// make half of its endpoints: only what stands may lose by it.
func (s *State) announce(out *Effects, c Change) {
	if c.Dirty = s.readWhole(c.Dirty); len(c.Dirty) > 0 && s.synced {
		out.Changes = append(out.Changes, c)
	}
}

// tick lets time pass.
func (s *State) tick(now time.Time, out *Effects) {
	s.readiness.recount(s.stillServes)
	if s.readiness.unlooked {
		s.panicIf(now, func() world { return s.world(s.readyPods()) }, out)
	}
	s.readiness.fallen = s.stillFallen()
	free := s.readiness.tick(now, s.cfg.Limits, s.readyPods, s.synced && s.lists[Pods] == nil, s.blind(), len(s.leftOut.unlisted[Pods]) > 0)
	s.announce(out, Change{Cause: Cause{Kind: "Cluster", Event: "released"}, Dirty: s.overrideAll(free, out)})
	s.checkKept(out)
	s.checkHidden(now, out)
	s.expireDamping(now, out)
	s.tickRules(now, out)
	s.skipNodes(now, out)
	s.judgeIdle(now, out)
	s.makeRoom(now)
	s.askAgain(now, out)
	for kind := range s.due {
		if at := s.due[kind]; !at.IsZero() && !now.Before(at) {
			s.due[kind] = time.Time{}
			out.List = append(out.List, Kind(kind))
		}
	}
}

// dueBy asks for a list of a kind at a moment, or earlier.
func (s *State) dueBy(kind Kind, at time.Time) {
	if kind == Manual {
		s.dueBy(Endpoints, at)
		s.dueBy(Slices, at)
		return
	}
	if s.due[kind].IsZero() || at.Before(s.due[kind]) {
		s.due[kind] = at
	}
}

// backoff is the time until the next list of a kind where lists settle nothing.
func (s *State) backoff(kind Kind) time.Duration {
	const limit = time.Minute
	first := max(s.cfg.ConfirmAfter, time.Second)
	wait := min(first<<min(s.tries[kind], 10), max(limit, first))
	s.tries[kind]++
	return wait
}

// Store is what the member is taken to have. It is for reading.
func (s *State) Store() *store.Store { return s.store }

// View is how the member stands, as of the last step.
func (s *State) View() View { return s.view }

// LastContact is when the member was last heard of; the start, if it never was.
func (s *State) LastContact() (at time.Time, ever bool) { return s.reach.contact, s.reach.connected }

// LastError is the last fault of the member, which stays when it is well again.
func (s *State) LastError() (at time.Time, err error) { return s.lastErrAt, s.lastErr }

// Reported puts those of the pods that are kept ready back to what the member shows.
func (s *State) Reported(pods []*syncer.Pod) {
	for i, pod := range pods {
		if d := s.readiness.down[pod.Key]; d != nil && d.kept() && d.reported.Object.UID == pod.UID {
			is := d.reported.Object
			pods[i] = &is
		}
	}
}
