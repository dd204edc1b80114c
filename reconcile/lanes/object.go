// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"hash/crc32"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The delays of an object after failures in a row: firstDelay, then twice as much after
// each, up to longestDelay; plus up to a fifth by the object's name, so that objects that
// failed together part.
const (
	firstDelay   = 5 * time.Millisecond
	longestDelay = 30 * time.Second
)

// object is one object of a replica, while something of it is planned or under way, and
// until the comparison after.
type object struct {
	dispatch *Dispatch
	name     plan.Object
	key      syncer.Key
	// action is what is planned for work; nothing is while work is nil.
	action plan.Action
	work   *Work
	lane   Lane
	// seat is its place in line, or among those that wait for their namespace. Until due it is
	// in neither, but among the delayed.
	seat seat
	due  time.Time
	// grant is the place that its request has.
	grant *Grant
	// removals and others are delays by what has failed: a removal does not wait for an
	// addition of the same object. asked is what the server asked for: it holds both.
	removals, others delay
	asked            time.Time
	// err is why the last request was not taken.
	err error
}

// delay is how often in a row requests have failed, and until when the next one waits.
type delay struct {
	failures int
	until    time.Time
}

func (o *object) fail(y *delay, now time.Time) {
	y.until = now.Add(o.spread(min(longestDelay, firstDelay<<min(y.failures, 13))))
	y.failures++
}

// spread adds up to a fifth; it never shortens what a server asked for.
func (o *object) spread(d time.Duration) time.Duration {
	return d + d/5/256*time.Duration(crc32.ChecksumIEEE([]byte(o.name.String()))%256)
}

// note takes in what became of a request.
func (o *object) note(now time.Time, lane Lane, out Outcome) {
	switch {
	case out.Result == Reduced:
		o.removals = delay{}
		o.fail(&o.others, now)
	case out.Result == Failed && lane == plan.Removal:
		o.fail(&o.removals, now)
	case out.Result == Failed:
		o.fail(&o.others, now)
	}
	if out.Result != Unused {
		o.err = out.Err
	}
	if out.RetryAfter > 0 {
		o.asked = now.Add(o.spread(out.RetryAfter))
	}
}

// plan makes an action what is planned. In the same lane it keeps its place, so that a
// replica that changes all the time is served as well.
func (o *object) plan(now time.Time, a plan.Action, w *Work) {
	stays := o.work != nil && o.lane == a.Lane()
	if o.work != nil {
		o.work.left--
	}
	o.action, o.work, o.lane = a, w, a.Lane()
	w.left++
	if o.lane == plan.Removal {
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
	if o.lane == plan.Removal {
		delays[1] = o.removals.until
	} else if r := o.dispatch.repairs[o.name]; r != nil {
		delays = append(delays, r.until)
	}
	due := slices.MaxFunc(delays, time.Time.Compare)
	if !due.After(now) {
		o.seat = o.dispatch.ready.lines[o.lane].push(o.work.Cause.Cluster, o)
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

// drop takes away what is planned, and reports whether a request is under way.
func (o *object) drop() bool {
	if o.work != nil {
		o.leave()
		o.work.left--
		o.action, o.work = plan.Action{}, nil
	}
	return o.grant != nil
}
