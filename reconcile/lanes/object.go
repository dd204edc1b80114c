// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/plan"
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

// object is one object of a replica, while something of it is planned or under way, and
// until the comparison after.
type object struct {
	dispatch *Dispatch
	name     plan.Object
	// action is what is planned for work; nothing is while work is nil.
	action plan.Action
	work   *Work
	// seat is its place in line, or among those that wait for their namespace. Until due it is
	// in neither, but among the delayed.
	seat seat
	due  time.Time
	// grant is the place that its request has.
	grant *Grant
	// removals and others are delays after failures: a removal does not wait for an addition
	// of the same object. asked is the server's Retry-After, which delays both.
	removals, others delay
	asked            time.Time
	// err is why the last request was not accepted. After one that was Refused, removals are to be
	// sent by themselves.
	err  error
	last Result
}

// delay is how often in a row requests have failed, and until when the next one waits.
type delay struct {
	failures int
	until    time.Time
}

func (y *delay) fail(now time.Time) {
	y.until = now.Add(min(longestDelay, firstDelay<<min(y.failures, 13)))
	y.failures++
}

// note records the outcome of a request. One of removals alone, after the whole was not accepted,
// says nothing of the whole: the rest waits as long as it would have without it.
func (o *object) note(now time.Time, g *Grant, out Outcome) {
	less := g.Action.Less
	if out.Result == Written && g.Work.repairs() {
		o.dispatch.repaired(now, o.name)
	}
	switch {
	case out.Result == Unused:
	case out.Result == Written && less && o.err != nil:
		o.removals = delay{}
	case out.Result == Written:
		o.err, o.last, o.removals, o.others = nil, Written, delay{}, delay{}
	default:
		if o.err, o.last = out.Err, out.Result; o.last == Refused && less {
			o.last = Failed
		}
		if g.Action.Lane() == plan.Removal {
			o.removals.fail(now)
		} else {
			o.others.fail(now)
		}
	}
	if out.RetryAfter > 0 {
		o.asked = now.Add(out.RetryAfter)
	}
}

// plan makes an action the planned one. In the same lane it retains its place, so that a replica
// that changes all the time is served as well.
func (o *object) plan(now time.Time, a plan.Action, w *Work) {
	stays := o.work != nil && o.action.Lane() == a.Lane()
	if o.work != nil {
		o.work.left--
	}
	o.action, o.work = a, w
	w.left++
	if a.Lane() == plan.Removal {
		o.dispatch.removed = now
	}
	if !stays {
		o.line(now)
	}
}

// line puts what is planned into line, or among the delayed until its delay is over.
func (o *object) line(now time.Time) {
	o.leave()
	delays := []time.Time{o.asked, o.others.until}
	if o.action.Lane() == plan.Removal {
		delays[1] = o.removals.until
	} else {
		delays = append(delays, o.dispatch.repairs[o.name])
	}
	due := slices.MaxFunc(delays, time.Time.Compare)
	if !due.After(now) {
		o.seat = o.dispatch.ready.lines[o.action.Lane()].push(o.work.Cause.Cluster, o)
		return
	}
	o.due = due
	at, _ := slices.BinarySearchFunc(o.dispatch.delayed, due, func(other *object, due time.Time) int { return other.due.Compare(due) })
	o.dispatch.delayed = slices.Insert(o.dispatch.delayed, at, o)
}

// leave ends all waiting.
func (o *object) leave() {
	if o.seat.leave(); !o.due.IsZero() {
		at := slices.Index(o.dispatch.delayed, o)
		o.dispatch.delayed, o.due = slices.Delete(o.dispatch.delayed, at, at+1), time.Time{}
	}
}

// drop removes what is planned, and reports whether a request is under way.
func (o *object) drop() bool {
	if o.work != nil {
		o.leave()
		o.work.left--
		o.action, o.work = plan.Action{}, nil
	}
	return o.grant != nil
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
