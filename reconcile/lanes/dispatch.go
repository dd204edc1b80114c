// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
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
	// additionsBeside and bulkBeside are how many each may hold beside a removal, and for
	// afterRemoval after one; bulk work also while there is news that was not compared, for any
	// of it may be a removal.
	additionsBeside = 8
	bulkBeside      = 4
	afterRemoval    = time.Second
	// A namespace in which a request has been under way for hanging has latePlaces until one is
	// answered in time; removals have their own, so that they wait for no other.
	hanging    = time.Second
	latePlaces = 2
)

// Dispatch holds the actions that are planned, and grants each a place in order.
type Dispatch struct {
	queue *Queue
	// replicas hold the objects of each of which something is planned or under way, and each until
	// the comparison after.
	replicas map[syncer.Key]map[plan.Object]*object
	// underWay holds the places that are granted by the object that is written, held counts
	// them by lane.
	underWay map[plan.Object]*Grant
	held     [laneCount]int
	// ready is what waits for a place and nothing else, delayed what waits for its time, the
	// soonest first, and parked what waits for a place of its namespace, or for another replica's
	// request about the same object.
	ready   fair
	delayed list.List
	parked  map[share]*list.List
	// late are the namespaces whose last request took long.
	late map[share]bool
	// removed is when a removal was last answered.
	removed time.Time
	// repairs are until when objects that others change are not repaired again.
	repairs map[plan.Object]time.Time
}

// share is the removals of a namespace, or all else.
type share struct {
	namespace string
	removals  bool
}

// Grant is the right to send one request. Exactly one call of Dispatch.Done ends it, also when
// nothing was sent, or its place is lost.
type Grant struct {
	// Action is what is to be sent.
	Action plan.Action
	// Work is the comparison that asked for it.
	Work *Work
	// Store is for the sender: the store that it goes to.
	Store int

	of share
	at time.Time
}

// NewDispatch returns a Dispatch for what is compared out of the queue.
func NewDispatch(q *Queue) *Dispatch {
	return &Dispatch{
		queue: q, replicas: map[syncer.Key]map[plan.Object]*object{}, underWay: map[plan.Object]*Grant{},
		parked: map[share]*list.List{}, late: map[share]bool{}, repairs: map[plan.Object]time.Time{},
	}
}

// Busy reports whether a request for the object is under way whose answer has the replica compared
// again: a comparison leaves it out.
func (d *Dispatch) Busy(replica syncer.Key, o plan.Object) bool {
	g := d.underWay[o]
	return g != nil && (g.Work.Key == replica || o.Kind == plan.KindNamespace)
}

// Replace plans the actions of a comparison in place of all that was planned for its replica, and
// returns the works of which nothing remains then: this one has their causes now. Requests under
// way go on; no action is on an object that is Busy. more says that something remains that cannot
// be an action yet: it is for the next comparison, until when the changes count as not written.
// Call it at the end of each comparison, also when there is nothing to do.
func (d *Dispatch) Replace(now time.Time, w *Work, actions []plan.Action, more bool) (over []*Work) {
	was, objects := d.replicas[w.Key], map[plan.Object]*object{}
	for _, a := range actions {
		objects[a.Object()] = cmp.Or(was[a.Object()], &object{})
	}
	for name, o := range was {
		if o.work != nil {
			w.gather(o.work)
			if o.work.left--; o.work.left == 0 {
				over = append(over, o.work)
			}
		}
		if objects[name] == nil {
			o.seat.leave()
			o.action, o.work = plan.Action{}, nil
			if g := d.underWay[name]; g != nil && g.Work.Key == w.Key {
				objects[name] = o
			}
		}
	}
	for _, a := range actions {
		o := objects[a.Object()]
		// In the same lane it retains its place, so that a replica that changes all the time is served as well.
		stays := o.work != nil && o.action.Lane() == a.Lane()
		o.action, o.work = a, w
		w.left++
		if !stays {
			d.line(now, o)
		}
	}
	d.replicas[w.Key] = objects
	if len(objects) == 0 {
		delete(d.replicas, w.Key)
	}
	if more {
		d.queue.next(w.Key).gather(w)
	}
	return over
}

// Drop removes all that is planned, with its delays, has its replicas compared again, until when
// the changes count as not written, and returns the works of which nothing remains then. Requests
// under way go on.
func (d *Dispatch) Drop(now time.Time) (over []*Work) {
	for _, key := range slices.SortedFunc(maps.Keys(d.replicas), syncer.Key.Compare) {
		over = append(over, d.Replace(now, &Work{Key: key}, nil, true)...)
		d.queue.Add(now, key, plan.Bulk)
	}
	return over
}

// Next grants a place to the next action. If none may be sent it is nil, and wake is when to call
// again though nothing else has happened; zero: never.
func (d *Dispatch) Next(now time.Time) (g *Grant, wake time.Time) {
	for e := d.delayed.Front(); e != nil && !e.Value.(*object).due.After(now); e = d.delayed.Front() {
		d.line(now, e.Value.(*object))
	}
	for {
		o, ok := d.ready.pop(func(lane plan.Lane) bool { return d.may(lane, now) }).(*object)
		if !ok {
			break
		}
		of := share{o.work.Key.Namespace, o.action.Lane() == plan.Removal}
		name := o.action.Object()
		g := d.underWay[name]
		if g == nil && !d.full(of, now) {
			g = &Grant{Action: o.action, Work: o.work, of: of, at: now}
			o.action, o.work, o.seat = plan.Action{}, nil, seat{}
			d.underWay[name] = g
			d.held[g.Action.Lane()]++
			d.ready.served++
			return g, time.Time{}
		}
		if g != nil { // of another replica: until that one ends
			of = g.of
		}
		if d.parked[of] == nil {
			d.parked[of] = list.New()
		}
		o.seat = sit(d.parked[of], o)
	}
	if e := d.delayed.Front(); e != nil {
		wake = e.Value.(*object).due
	}
	if calm := d.removed.Add(afterRemoval); calm.After(now) && (wake.IsZero() || calm.Before(wake)) {
		wake = calm
	}
	return nil, wake
}

// may reports whether the lane may hold one more place.
func (d *Dispatch) may(lane plan.Lane, now time.Time) bool {
	removals, additions, bulk := d.held[plan.Removal], d.held[plan.Addition], d.held[plan.Bulk]
	calm := removals == 0 && now.Sub(d.removed) >= afterRemoval
	switch {
	case removals+additions+bulk >= Places || lane != plan.Removal && additions+bulk >= otherPlaces:
		return false
	case lane == plan.Addition && additions >= additionsBeside:
		return calm
	case lane == plan.Bulk && bulk >= bulkBeside:
		return calm && bulk < bulkPlaces && d.queue.Len() == 0
	}
	return true
}

// full reports whether no more of a namespace may be under way.
func (d *Dispatch) full(of share, now time.Time) bool {
	held, late := 0, d.late[of]
	for _, g := range d.underWay {
		if g.of == of {
			held++
			late = late || now.Sub(g.at) >= hanging
		}
	}
	return late && held >= latePlaces
}

// Done ends a grant, frees its place and has the replica compared again, whatever the
// outcome: the answer must be in the cache by then. last is true when no other action of its
// Work is planned or under way.
func (d *Dispatch) Done(now time.Time, g *Grant, out Outcome) (last bool) {
	w, lane, name := g.Work, g.Action.Lane(), g.Action.Object()
	delete(d.underWay, name)
	d.held[lane]--
	if lane == plan.Removal {
		d.removed = now
	}
	d.replicas[w.Key][name].note(now, g.Action, out)
	if out.Err == nil {
		if w.Causes == 0 || w.Cause.Event == record.EventRepaired { // no member has news
			d.repaired(now, name)
		}
		d.reached(now)
	} else {
		next := d.queue.next(w.Key)
		next.gather(w)
		if !out.Unused {
			next.Attempt = max(next.Attempt, w.Attempt+1)
		}
	}
	if now.Sub(g.at) >= hanging {
		d.late[g.of] = true
	} else if !out.Unused {
		delete(d.late, g.of)
	}
	if waiting := d.parked[g.of]; waiting != nil {
		delete(d.parked, g.of)
		for waiting.Len() > 0 {
			d.line(now, waiting.Front().Value.(*object))
		}
	}
	d.queue.Add(now, w.Key, lane)
	w.left--
	return w.left == 0
}

// Status returns the state of each lane, the most urgent first; and of every member of which something
// is not written yet, when its oldest change arrived: in the queue, planned, or under way. Changes without
// a member (repairs, the configuration) are under "". The cost grows with what is not written.
func (d *Dispatch) Status(now time.Time) (lanes []metrics.LaneStatus, oldest map[string]time.Time) {
	lanes, oldest = make([]metrics.LaneStatus, laneCount), map[string]time.Time{}
	for lane := range lanes {
		lanes[lane].Name = plan.Lane(lane).String()
	}
	note := func(count *int, s *metrics.LaneStatus, w *Work) {
		*count++
		if w.Causes > 0 {
			s.OldestSeconds = max(s.OldestSeconds, now.Sub(w.Cause.Arrival).Seconds())
		}
		mergeOldest(oldest, w.arrivals)
	}
	for _, g := range d.underWay {
		s := &lanes[g.Action.Lane()]
		note(&s.Sent, s, g.Work)
	}
	for _, objects := range d.replicas {
		for _, o := range objects {
			if s := &lanes[o.action.Lane()]; o.work != nil {
				note(&s.Waiting, s, o.work)
			}
		}
	}
	for _, w := range d.queue.pending {
		mergeOldest(oldest, w.arrivals)
	}
	return lanes, oldest
}
