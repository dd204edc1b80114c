// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The places of requests.
const (
	// Places is how many requests are under way at once.
	Places = 64
	// otherPlaces is how many of them additions and bulk work may hold: a removal finds a
	// place, however many of the others hang until their deadline.
	otherPlaces = 48
	// bulkPlaces is how many bulk work may hold. The more an API server has at once the less
	// each costs it, but the first removal after a calm finds them all under way.
	bulkPlaces = 32
	// bulkBeside is how many it may hold beside a removal, for afterRemoval after one, and
	// while there is news that was not compared, for any of it may be a removal.
	bulkBeside   = 4
	afterRemoval = time.Second
)

// Dispatch holds the actions that are planned, and grants each a place when it is its turn.
type Dispatch struct {
	queue      *Queue
	replicas   map[syncer.Key]*replica
	namespaces map[share]*namespace
	// underWay holds the places that are granted by the object that is written, held counts
	// them by lane.
	underWay map[plan.Object]*Grant
	held     [laneCount]int
	// ready is what waits for a place and nothing else, delayed what waits for its time, the
	// soonest first.
	ready   fair
	delayed []*object
	// removed is when a removal was last planned or answered.
	removed time.Time
}

// replica is what one key has planned and under way, and the works that are not all
// written. An object is forgotten once nothing is wanted of it.
type replica struct {
	objects map[plan.Object]*object
	works   []*Work
}

// NewDispatch returns a Dispatch for what is compared out of the queue.
func NewDispatch(q *Queue) *Dispatch {
	return &Dispatch{
		queue: q, replicas: map[syncer.Key]*replica{}, namespaces: map[share]*namespace{}, underWay: map[plan.Object]*Grant{},
	}
}

// Busy reports whether a request for the object is under way: a comparison leaves it out.
func (d *Dispatch) Busy(o plan.Object) bool { return d.underWay[o] != nil }

// UnderWay returns which objects have a request under way at this moment, for use after it. Ask
// before you read what stands: an answer that comes in between would be taken for news that is
// not there.
func (d *Dispatch) UnderWay() func(plan.Object) bool {
	objects := slices.Collect(maps.Keys(d.underWay))
	return func(o plan.Object) bool { return slices.Contains(objects, o) }
}

// Replace plans the actions that a comparison gave in place of all that was planned for its
// replica. What is under way goes on, and an action on such an object is left out. The work
// takes over the causes of what it replaces and of what failed; those are returned of which
// nothing is under way any more. more says that something remains that could not be an action
// yet: its changes count as not written until a later comparison. Call it at the end of each
// comparison, also when there is nothing to do.
func (d *Dispatch) Replace(now time.Time, w *Work, actions []plan.Action, more bool) (former []*Work) {
	r := d.replicas[w.Key]
	if r == nil {
		r = &replica{}
		d.replicas[w.Key] = r
	}
	was := r.objects
	r.objects = map[plan.Object]*object{}
	for _, o := range was {
		if o.work != nil {
			o.work.owed = true
		}
	}
	former = d.inherit(r, w)
	w.owed = more
	for _, a := range actions {
		o := was[a.Object()]
		if o == nil {
			o = &object{dispatch: d, name: a.Object(), key: w.Key}
		}
		if r.objects[o.name] = o; o.grant != nil {
			w.owed = true
			continue
		}
		o.plan(now, a, w)
	}
	for name, o := range was {
		if r.objects[name] == nil && o.work != nil {
			o.drop()
		}
		if o.grant != nil {
			r.objects[name] = o
		}
	}
	d.finish(w)
	return former
}

// Drop takes away all that is planned, with its delays, and returns whose it was: those are to be
// compared again, until when it counts as not written. What is under way goes on.
func (d *Dispatch) Drop() (replicas []syncer.Key) {
	for key, r := range d.replicas {
		for name, o := range r.objects {
			if o.work != nil {
				o.work.owed = true
				o.drop()
			}
			if o.grant == nil {
				delete(r.objects, name)
			}
		}
		replicas = append(replicas, key)
	}
	slices.SortFunc(replicas, syncer.Key.Compare)
	return replicas
}

// inherit has the work take over what earlier ones owe.
func (d *Dispatch) inherit(r *replica, w *Work) (former []*Work) {
	r.works = slices.DeleteFunc(r.works, func(old *Work) bool {
		if old.owed && !old.inherited {
			w.gather(old)
			delete(d.queue.open, old)
			old.inherited = true
		}
		if !old.owed || old.underWay > 0 {
			return false
		}
		former = append(former, old)
		return true
	})
	r.works = append(r.works, w)
	return former
}

// finish forgets a work of which all is written, and a replica of which nothing is left.
func (d *Dispatch) finish(w *Work) {
	r := d.replicas[w.Key]
	if w.planned == 0 && w.underWay == 0 && !w.owed {
		delete(d.queue.open, w)
		r.works = slices.DeleteFunc(r.works, func(other *Work) bool { return other == w })
	}
	if len(r.objects) == 0 && len(r.works) == 0 {
		delete(d.replicas, w.Key)
	}
}

// Next grants a place to the action whose turn it is. If none may be sent it is nil, and wake
// is when to ask again though nothing else has happened; zero: never.
func (d *Dispatch) Next(now time.Time) (g *Grant, wake time.Time) {
	for len(d.delayed) > 0 && !now.Before(d.delayed[0].due) {
		d.delayed[0].line(now)
	}
	for {
		o, ok := d.ready.pop(func(lane Lane) bool { return d.may(lane, now) }).(*object)
		if !ok {
			break
		}
		n := d.namespace(o.key, o.lane)
		if d.underWay[o.name] != nil || n.full(now) {
			o.seat = sit(&n.parked, o)
			continue
		}
		return d.grant(o, n, now), time.Time{}
	}
	if len(d.delayed) > 0 {
		wake = d.delayed[0].due
	}
	if calm := d.removed.Add(afterRemoval); calm.After(now) && (wake.IsZero() || calm.Before(wake)) {
		wake = calm
	}
	return nil, wake
}

// may reports whether the lane may hold one more place.
func (d *Dispatch) may(lane Lane, now time.Time) bool {
	others, bulk := d.held[plan.Addition]+d.held[plan.Bulk], d.held[plan.Bulk]
	switch {
	case others+d.held[plan.Removal] >= Places || lane != plan.Removal && others >= otherPlaces:
		return false
	case lane != plan.Bulk || bulk < bulkBeside:
		return true
	}
	return bulk < bulkPlaces && d.held[plan.Removal] == 0 && d.queue.Len() == 0 && now.Sub(d.removed) >= afterRemoval
}

// LaneState is how a lane stands at one moment.
type LaneState struct {
	// Planned and UnderWay count actions.
	Planned, UnderWay int
	// Oldest is when the earliest of their causes arrived; zero if there are none.
	Oldest time.Time
}

// States returns the state of each lane, the most urgent first. The cost grows with what is
// planned.
func (d *Dispatch) States() (states [laneCount]LaneState) {
	note := func(count *int, s *LaneState, w *Work) {
		if *count++; w.Causes > 0 && (s.Oldest.IsZero() || w.Cause.Arrival.Before(s.Oldest)) {
			s.Oldest = w.Cause.Arrival
		}
	}
	for _, g := range d.underWay {
		s := &states[g.Lane]
		note(&s.UnderWay, s, g.Work)
	}
	for _, r := range d.replicas {
		for _, o := range r.objects {
			if s := &states[o.lane]; o.work != nil {
				note(&s.Planned, s, o.work)
			}
		}
	}
	return states
}
