// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math/rand/v2"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The delays of an object after failures in a row: firstDelay, then twice as much after
// each, up to longestDelay; plus up to a fifth by chance, so that objects that failed
// together part.
const (
	firstDelay   = 5 * time.Millisecond
	longestDelay = 30 * time.Second
)

// object is one object of a replica, while something of it is planned or under way, and
// until the comparison after. The Dispatch's lock guards it.
type object struct {
	dispatch *Dispatch
	name     plan.Object
	key      syncer.Key
	// action is what is planned for work; nothing is while work is nil.
	action plan.Action
	work   *Work
	lane   Lane
	// seat is its place in line, or among those that wait for their namespace. Until wake
	// fires it is in neither.
	seat seat
	wake *time.Timer
	// grant is the place that its request has.
	grant *Grant
	// removals and others are delays by what has failed: a removal does not wait for an
	// addition of the same object. asked is what the server asked for: it holds both.
	removals, others delay
	asked            time.Time
}

// delay is how often in a row requests have failed, and until when the next one waits.
type delay struct {
	failures int
	until    time.Time
}

func (y *delay) fail(now time.Time) {
	y.until = now.Add(spread(min(longestDelay, firstDelay<<min(y.failures, 13))))
	y.failures++
}

// spread adds up to a fifth; it never shortens what a server asked for.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*0.2*rand.Float64())
}

// plan makes an action what is planned. In the same lane it keeps its place, so that a
// replica that changes all the time is served as well.
func (o *object) plan(a plan.Action, w *Work) {
	stays := o.work != nil && o.lane == a.Lane() && o.seat.in != nil
	if o.work != nil {
		o.work.planned--
	}
	o.action, o.work, o.lane = a, w, a.Lane()
	w.planned++
	if o.lane == plan.Removal {
		o.dispatch.removed = time.Now()
	}
	if !stays {
		o.line()
	}
}

// line puts what is planned into line when its delay is over.
func (o *object) line() {
	o.leave()
	due := o.others.until
	if o.lane == plan.Removal {
		due = o.removals.until
	}
	if o.asked.After(due) {
		due = o.asked
	}
	if wait := time.Until(due); wait > 0 {
		var wake *time.Timer
		wake = time.AfterFunc(wait, func() {
			o.dispatch.mu.Lock()
			defer o.dispatch.mu.Unlock()
			if o.wake == wake {
				o.line()
			}
		})
		o.wake = wake
		return
	}
	o.seat = o.dispatch.ready.lines[o.lane].push(o.work.Cause.Cluster, o)
	o.dispatch.free.Signal()
}

// leave ends all waiting.
func (o *object) leave() {
	o.seat.leave()
	if o.wake != nil {
		o.wake.Stop()
		o.wake = nil
	}
}

// drop takes away what is planned.
func (o *object) drop() {
	o.leave()
	o.work.planned--
	o.action, o.work = plan.Action{}, nil
}
