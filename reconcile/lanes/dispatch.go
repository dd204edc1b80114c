// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
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
	additionsBeside = 16
	bulkBeside      = 4
	afterRemoval    = time.Second
)

// Dispatch holds the actions that are planned, and grants each a place in order.
type Dispatch struct {
	queue *Queue
	// replicas hold the objects of each of which something is planned or under way, and each until
	// the comparison after.
	replicas   map[syncer.Key]map[plan.Object]*object
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
	// repairs are until when objects that others change are not repaired again.
	repairs map[plan.Object]time.Time
}

// NewDispatch returns a Dispatch for what is compared out of the queue.
func NewDispatch(q *Queue) *Dispatch {
	return &Dispatch{
		queue: q, replicas: map[syncer.Key]map[plan.Object]*object{}, namespaces: map[share]*namespace{},
		underWay: map[plan.Object]*Grant{}, repairs: map[plan.Object]time.Time{},
	}
}

// Busy reports whether a request for the object is under way: a comparison leaves it out.
func (d *Dispatch) Busy(o plan.Object) bool { return d.underWay[o] != nil }

// Replace plans the actions of a comparison in place of all that was planned for its replica, and
// returns the works of which nothing remains then: this one has their causes now. Requests under
// way go on; no action is on an object that is Busy. planned is false if there are no actions.
// more says that something remains that cannot be an action yet: it is for the next comparison,
// until when the changes count as not written. Call it at the end of each comparison, also when
// there is nothing to do.
func (d *Dispatch) Replace(now time.Time, w *Work, actions []plan.Action, more bool) (over []*Work, planned bool) {
	was, objects := d.replicas[w.Key], map[plan.Object]*object{}
	former := plannedBy(was)
	for _, earlier := range former {
		w.gather(earlier)
	}
	for _, a := range actions {
		o := was[a.Object()]
		if o == nil {
			o = &object{dispatch: d, name: a.Object()}
		}
		objects[o.name] = o
		o.plan(now, a, w)
	}
	for name, o := range was {
		if objects[name] == nil && o.drop() {
			objects[name] = o
		}
	}
	if d.replicas[w.Key] = objects; len(objects) == 0 {
		delete(d.replicas, w.Key)
	}
	if more {
		d.queue.next(w.Key).gather(w)
	}
	return slices.DeleteFunc(former, func(w *Work) bool { return w.left > 0 }), w.left > 0
}

// Drop removes all that is planned, with its delays, and returns the works of which nothing
// remains then: their replicas are to be compared again, until when the changes count as not
// written. Requests under way go on.
func (d *Dispatch) Drop(now time.Time) (over []*Work) {
	for _, key := range slices.SortedFunc(maps.Keys(d.replicas), syncer.Key.Compare) {
		former, _ := d.Replace(now, &Work{Key: key}, nil, true)
		over = append(over, former...)
	}
	return over
}

// plannedBy are the works that planned something.
func plannedBy(objects map[plan.Object]*object) (works []*Work) {
	for _, o := range objects {
		if o.work != nil && !slices.Contains(works, o.work) {
			works = append(works, o.work)
		}
	}
	return works
}

// Next grants a place to the next action. If none may be sent it is nil, and wake is when to call
// again though nothing else has happened; zero: never.
func (d *Dispatch) Next(now time.Time) (g *Grant, wake time.Time) {
	for len(d.delayed) > 0 && !now.Before(d.delayed[0].due) {
		d.delayed[0].line(now)
	}
	for {
		o, ok := d.ready.pop(func(lane Lane) bool { return d.may(lane, now) }).(*object)
		if !ok {
			break
		}
		n, g := d.namespace(o.work.Key, o.action.Lane()), d.underWay[o.name]
		if g != nil { // of another replica: where that one ends
			n = d.namespace(g.Work.Key, g.Action.Lane())
		}
		if g != nil || n.full(now) {
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

// Failed returns the objects of a replica whose last write was not accepted, and why.
func (d *Dispatch) Failed(replica syncer.Key) map[plan.Object]error {
	failed := map[plan.Object]error{}
	for name, o := range d.replicas[replica] {
		if o.err != nil {
			failed[name] = o.err
		}
	}
	return failed
}

// Refused reports whether the next request about an object of a replica may only remove.
func (d *Dispatch) Refused(replica syncer.Key, o plan.Object) bool {
	is := d.replicas[replica][o]
	return is != nil && is.last == Refused
}

// Status returns the state of each lane, the most urgent first. The cost grows with what is
// planned.
func (d *Dispatch) Status(now time.Time) []metrics.LaneStatus {
	lanes := make([]metrics.LaneStatus, laneCount)
	for lane := range lanes {
		lanes[lane].Name = Lane(lane).String()
	}
	note := func(count *int, s *metrics.LaneStatus, w *Work) {
		if *count++; w.Causes > 0 {
			s.OldestSeconds = max(s.OldestSeconds, now.Sub(w.Cause.Arrival).Seconds())
		}
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
	return lanes
}

// Oldest returns, of every member of which something is not written yet, when its oldest
// change arrived: in the queue, planned, or under way. Changes without a member (repairs, the
// configuration) are under "". The cost grows with what is not written.
func (d *Dispatch) Oldest() map[string]time.Time {
	oldest := map[string]time.Time{}
	for _, w := range d.queue.pending {
		mergeOldest(oldest, w.arrivals)
	}
	for _, g := range d.underWay {
		mergeOldest(oldest, g.Work.arrivals)
	}
	for _, objects := range d.replicas {
		for _, w := range plannedBy(objects) {
			mergeOldest(oldest, w.arrivals)
		}
	}
	return oldest
}
