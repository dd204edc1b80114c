// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Refusals remembers what the API server refused of which replica, so that the
// rest is written without asking again each time. Now and then a look leaves the
// memory aside: the member, or the server, may have mended it.
//
// All methods are safe for concurrent use; those about one key are called by the
// worker that holds it. Memory is bounded by the replicas with refusals.
type Refusals struct {
	// first and most bound the time between two looks at everything.
	first, most time.Duration
	// due receives the keys that are to be looked at again.
	due func(syncer.Key)
	// bare bounds the trials of replicas that have nothing else.
	bare *RepairThrottle

	mu    sync.Mutex
	of    map[syncer.Key]*refusal
	timer *time.Timer
	ended bool
}

// refusal is what is left out of one replica.
type refusal struct {
	known []plan.Refusal
	// next is when a look will leave known aside, pause the time before it.
	next  time.Time
	pause time.Duration
	// whole: an object was refused last, whatever is in it.
	whole bool
}

// Pass is what came of a pass over a replica.
type Pass struct {
	// Refused: a refusal was met in it. Stuck: nothing could be left out for it. Whole: an
	// object was refused whatever is in it. Taken: a write was taken.
	Refused, Stuck, Whole, Taken bool
}

const (
	FirstPause  = 5 * time.Second
	refusalMost = 5 * time.Minute
)

func NewRefusals(first time.Duration, due func(syncer.Key)) *Refusals {
	return &Refusals{first: first, most: refusalMost, due: due, bare: NewRepairThrottle(), of: map[syncer.Key]*refusal{}}
}

// Known returns what to leave out in a pass that begins now: nothing when it is
// time to try everything again. With news from a member that time comes sooner, and
// a pass that is urgent leaves it to a later one. former is what was left out last.
func (r *Refusals) Known(key syncer.Key, urgent, news bool, now time.Time) (known, former []plan.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[key]
	if one == nil {
		return nil, nil
	}
	next := one.next
	if news {
		next = next.Add(-one.pause * 3 / 4)
	}
	if urgent || now.Before(next) {
		return slices.Clone(one.known), one.known
	}
	// A search that was not at its end goes on where it was.
	tried := slices.DeleteFunc(slices.Clone(one.known), untried)
	if len(tried) < len(one.known) {
		return tried, one.known
	}
	return nil, one.known
}

func untried(r plan.Refusal) bool { return r.Untried }

// TryNow reports whether an urgent pass is to try everything again, since a replica has
// nothing else that is ready: five times in a minute, then more rarely. Whatever becomes of
// it, pauses are short again.
func (r *Refusals) TryNow(key syncer.Key, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[key]
	if one == nil {
		return false
	}
	one.pause = r.first
	if next := now.Add(one.pause); next.Before(one.next) {
		one.next = next
		r.lockedArm(now)
	}
	if r.bare.Held(key, now) > 0 {
		return false
	}
	r.bare.Repaired(key, now)
	return true
}

// Settle notes what has to be left out of a replica after the pass that ends now. A pass
// that was to try everything and could not passes on what it knew: the trial is due still.
// It is due, too, once an object is taken that was refused whatever was in it.
func (r *Refusals) Settle(key syncer.Key, left []plan.Refusal, pass Pass, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[key]
	switch {
	case len(left) == 0 && !pass.Stuck:
		delete(r.of, key)
		return
	case one == nil:
		one = &refusal{pause: r.first}
		r.of[key] = one
	case slices.ContainsFunc(left, untried):
		one.pause = r.first
	case pass.Refused:
		one.pause = min(2*one.pause, r.most)
	}
	one.known = left
	switch {
	case pass.Refused || one.next.IsZero():
		one.next, one.whole = now.Add(one.pause), pass.Whole
	case pass.Taken && one.whole:
		one.next, one.whole = now, false
	default:
		return
	}
	r.lockedArm(now)
}

// lockedArm sets the timer for the first replica that is due.
func (r *Refusals) lockedArm(now time.Time) {
	var first time.Time
	for _, one := range r.of {
		if first.IsZero() || one.next.Before(first) {
			first = one.next
		}
	}
	if first.IsZero() || r.ended {
		return
	}
	wait := max(first.Sub(now), time.Millisecond)
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, r.ring)
		return
	}
	r.timer.Reset(wait)
}

// ring hands out the keys that are due. One that is handed out and not looked at
// in time comes again after the shortest pause.
func (r *Refusals) ring() {
	now := time.Now()
	var keys []syncer.Key
	r.mu.Lock()
	again := time.Time{}
	for key, one := range r.of {
		if !now.Before(one.next) {
			keys = append(keys, key)
		} else if again.IsZero() || one.next.Before(again) {
			again = one.next
		}
	}
	if len(keys) > 0 && (again.IsZero() || again.After(now.Add(r.first))) {
		again = now.Add(r.first)
	}
	if !again.IsZero() && !r.ended {
		r.timer.Reset(max(again.Sub(now), time.Millisecond))
	}
	r.mu.Unlock()
	slices.SortFunc(keys, syncer.Key.Compare)
	for _, key := range keys {
		r.due(key)
	}
}

// Stop ends the timer.
func (r *Refusals) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
