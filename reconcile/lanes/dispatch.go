// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"maps"
	"slices"
	"sync"
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
// All methods are safe for concurrent use.
type Dispatch struct {
	queue *Queue

	mu sync.Mutex
	// free is signalled when something may have become grantable.
	free       *sync.Cond
	replicas   map[syncer.Key]*replica
	namespaces map[share]*namespace
	// underWay holds the places that are granted by the object that is written, held counts
	// them by lane.
	underWay map[plan.Object]*Grant
	held     [laneCount]int
	// ready is what waits for a place and nothing else.
	ready fair
	// removed is when a removal was last planned or answered, after looks again then.
	removed time.Time
	after   *time.Timer
}

// replica is what one key has planned and under way, and the works that are not all
// written. An object is forgotten once nothing is wanted of it.
type replica struct {
	objects map[plan.Object]*object
	works   []*Work
}

// NewDispatch returns a Dispatch for what is compared out of the queue.
func NewDispatch(q *Queue) *Dispatch {
	d := &Dispatch{
		queue: q, replicas: map[syncer.Key]*replica{}, namespaces: map[share]*namespace{}, underWay: map[plan.Object]*Grant{},
	}
	d.free = sync.NewCond(&d.mu)
	return d
}

// Busy reports whether a request for the object is under way: a comparison leaves it out.
func (d *Dispatch) Busy(o plan.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.underWay[o] != nil
}

// UnderWay returns which objects have a request under way at this moment. Ask before you read
// what stands: an answer that comes in between would be taken for news that is not there.
func (d *Dispatch) UnderWay() func(plan.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	objects := slices.Collect(maps.Keys(d.underWay))
	return func(o plan.Object) bool { return slices.Contains(objects, o) }
}

// Replace plans the actions that a comparison gave in place of all that was planned for its
// replica. What is under way goes on, and an action on such an object is left out. The work
// takes over the causes of what it replaces and of what failed. more says that something
// remains that could not be an action yet: its changes count as not written until a later
// comparison. Call it at the end of each comparison, also when there is nothing to do.
func (d *Dispatch) Replace(w *Work, actions []plan.Action, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.replicas[w.Key]
	if r == nil {
		r = &replica{objects: map[plan.Object]*object{}}
		d.replicas[w.Key] = r
	}
	w.owed = more
	former := r.objects
	r.objects = map[plan.Object]*object{}
	d.lockedInherit(r, former, w)
	for _, a := range actions {
		o := former[a.Object()]
		if o == nil {
			o = &object{dispatch: d, name: a.Object(), key: w.Key}
		}
		if r.objects[o.name] = o; o.grant != nil {
			w.owed = true
			continue
		}
		o.plan(a, w)
	}
	for name, o := range former {
		if r.objects[name] == nil && o.work != nil {
			o.drop()
		}
		if o.grant != nil {
			r.objects[name] = o
		}
	}
	d.lockedFinish(w)
	d.free.Signal() // all news may be compared by now
}

// lockedInherit has the work take over what earlier ones owe.
func (d *Dispatch) lockedInherit(r *replica, former map[plan.Object]*object, w *Work) {
	for _, o := range former {
		if o.work != nil {
			o.work.owed = true
		}
	}
	var owing []*Work
	r.works = slices.DeleteFunc(r.works, func(old *Work) bool {
		if old.owed {
			owing = append(owing, old)
		}
		return old.owed
	})
	r.works = append(r.works, w)
	d.queue.inherit(w, owing)
}

// lockedFinish forgets a work of which all is written, and a replica of which nothing is
// left.
func (d *Dispatch) lockedFinish(w *Work) {
	r := d.replicas[w.Key]
	if w.planned == 0 && w.underWay == 0 && !w.owed {
		d.queue.written(w)
		r.works = slices.DeleteFunc(r.works, func(other *Work) bool { return other == w })
	}
	if len(r.objects) == 0 && len(r.works) == 0 {
		delete(d.replicas, w.Key)
	}
}

// Next waits until an action may be sent; ok is false when ctx is done. A grant that is not
// used is ended as well, or its place is lost.
func (d *Dispatch) Next(ctx context.Context) (g *Grant, ok bool) {
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.free.Broadcast()
	})
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.free.Signal() // there may be another place, or the signal was not for us
	for ctx.Err() == nil {
		if g = d.lockedNext(time.Now()); g != nil {
			return g, true
		}
		d.free.Wait()
	}
	return nil, false
}

// lockedNext grants a place to the action whose turn it is; nil if none may be sent.
func (d *Dispatch) lockedNext(now time.Time) *Grant {
	for {
		o, ok := d.ready.pop(func(lane Lane) bool { return d.lockedMay(lane, now) }).(*object)
		if !ok {
			return nil
		}
		n := d.lockedNamespace(o.key, o.lane)
		if d.underWay[o.name] != nil || n.full(now) {
			o.seat = sit(&n.parked, o)
			continue
		}
		g := &Grant{Action: o.action, Work: o.work, Lane: o.lane, object: o, at: now}
		o.seat = seat{}
		o.drop()
		o.grant, d.underWay[o.name] = g, g
		g.Work.underWay++
		d.held[g.Lane]++
		d.ready.served++
		n.grants = append(n.grants, g)
		return g
	}
}

// lockedMay reports whether the lane may hold one more place.
func (d *Dispatch) lockedMay(lane Lane, now time.Time) bool {
	others, bulk := d.held[plan.Addition]+d.held[plan.Bulk], d.held[plan.Bulk]
	switch {
	case others+d.held[plan.Removal] >= Places || lane != plan.Removal && others >= otherPlaces:
		return false
	case lane != plan.Bulk || bulk < bulkBeside:
		return true
	case bulk >= bulkPlaces || d.held[plan.Removal] > 0 || d.queue.Len() > 0:
		return false
	}
	calm := d.removed.Add(afterRemoval).Sub(now)
	if calm <= 0 {
		return true
	}
	if d.after == nil {
		d.after = time.AfterFunc(calm, d.free.Signal)
	}
	d.after.Reset(calm)
	return false
}

// LaneState is how a lane stands at one moment.
type LaneState struct {
	// Planned and UnderWay count actions.
	Planned, UnderWay int
	// Oldest is when the oldest of their replicas became dirty; zero if there are none.
	Oldest time.Time
}

// States returns the state of each lane, the most urgent first. The cost grows with what is
// planned.
func (d *Dispatch) States() (states [laneCount]LaneState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	note := func(count *int, s *LaneState, w *Work) {
		if *count++; s.Oldest.IsZero() || w.Since.Before(s.Oldest) {
			s.Oldest = w.Since
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
