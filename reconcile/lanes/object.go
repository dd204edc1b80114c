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

const (
	// firstDelay is that of an object after a failure; it is twice as long after each in a row,
	// up to longestDelay.
	firstDelay   = 5 * time.Millisecond
	longestDelay = 30 * time.Second
	// repairBurst is how often an object that others change is repaired at once, repairPace the
	// time between two repairs after that.
	repairBurst = 5
	repairPace  = 12 * time.Second
	// manyRepairs is the number from which on old repairs are forgotten.
	manyRepairs = 1000
)

// Outcome is the end of a grant: Err is why not all is written. What the next comparison finds is
// delayed after an error, and until RetryAfter, which the server asked for, nothing is sent for the
// object, removals included.
type Outcome struct {
	Err        error
	RetryAfter time.Duration
	// Unused: nothing was sent, so that nothing is delayed.
	Unused bool
	// Refused: what the next comparison removes is to be sent by itself.
	Refused bool
	// Lost: the connection broke. The delay ends when another object is written.
	Lost bool
}

// object is one object of a replica, while something of it is planned or under way, and
// until the comparison after.
type object struct {
	// action is what is planned for work; nothing is while work is nil. seat is its place in the
	// list in which it waits, due until when if it is among the delayed.
	action plan.Action
	work   *Work
	seat   seat
	due    time.Time
	// delays are those after failures, by lane: a removal does not wait for an addition of the
	// same object. asked is the server's Retry-After, which delays all.
	delays [laneCount]delay
	asked  time.Time
	// last is how the last write of the whole object ended.
	last Outcome
}

// delay is how often in a row requests have failed, and until when the next one waits.
type delay struct {
	failures int
	until    time.Time
}

// note records the outcome of a request. One of removals alone, after the whole was not accepted,
// says nothing of the whole: the rest waits as long as it would have without it.
func (o *object) note(now time.Time, a plan.Action, out Outcome) {
	if out.RetryAfter > 0 {
		o.asked = now.Add(out.RetryAfter)
	}
	switch {
	case out.Unused:
	case out.Err == nil && a.Less && o.last.Err != nil:
		o.delays[plan.Removal] = delay{}
	case out.Err == nil:
		o.last, o.delays = out, [laneCount]delay{}
	default:
		o.last = out
		o.last.Refused = out.Refused && !a.Less
		of := &o.delays[a.Lane()]
		of.until = now.Add(min(longestDelay, firstDelay<<min(of.failures, 13)))
		of.failures++
	}
}

// Failed returns how the last write of each object of a replica ended that was not accepted. Of one
// that was Refused the next request may only remove.
func (d *Dispatch) Failed(replica syncer.Key) map[plan.Object]Outcome {
	failed := map[plan.Object]Outcome{}
	for name, o := range d.replicas[replica] {
		if o.last.Err != nil {
			failed[name] = o.last
		}
	}
	return failed
}

// line puts what is planned into line, or among the delayed until its delay is over.
func (d *Dispatch) line(now time.Time, o *object) {
	o.seat.leave()
	lane := o.action.Lane()
	delays := []time.Time{o.asked, o.delays[lane].until}
	if lane != plan.Removal {
		delays = append(delays, d.repairs[o.action.Object()])
	}
	o.due = slices.MaxFunc(delays, time.Time.Compare)
	if !o.due.After(now) {
		o.seat = d.ready.lines[lane].push(o.work.Cause.Cluster, o)
		return
	}
	o.seat = sit(&d.delayed, o)
	before := o.seat.at
	for e := before.Prev(); e != nil && e.Value.(*object).due.After(o.due); e = e.Prev() {
		before = e
	}
	d.delayed.MoveBefore(o.seat.at, before)
}

// reached ends the delays of lost requests: the server answers again, and removals go first.
func (d *Dispatch) reached(now time.Time) {
	for e := d.delayed.Front(); e != nil; {
		o := e.Value.(*object)
		e = e.Next()
		if o.last.Lost {
			o.delays, o.last.Lost = [laneCount]delay{}, false
			d.line(now, o)
		}
	}
}

// repaired counts a repair of an object that somebody else had changed. After many of them all
// but removals wait, so that two who disagree do not wear out an API server.
func (d *Dispatch) repaired(now time.Time, o plan.Object) {
	rested := now.Add((1 - repairBurst) * repairPace)
	if len(d.repairs) >= manyRepairs {
		maps.DeleteFunc(d.repairs, func(_ plan.Object, until time.Time) bool { return until.Before(rested) })
	}
	if until := d.repairs[o]; !until.After(now) {
		d.repairs[o] = slices.MaxFunc([]time.Time{until, rested}, time.Time.Compare).Add(repairPace)
	}
}
