// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// Queue is the set of keys that wait for a worker, and of the requests that workers
// send. All methods are safe for concurrent use. Each Item that Get returns must be
// ended by exactly one call of Done or Retry, or by an Admit that says no.
type Queue struct {
	opts  Options
	slots *slots

	mu sync.Mutex
	// entries holds every key that waits, is in backoff or is with a worker, and
	// no other; working those with a worker.
	entries map[syncer.Key]*entry
	working map[*entry]struct{}
	// fresh holds the keys in state ready of which there is news, by the lane that the
	// news asks for; judged those that have been compared since, by the lane that the
	// difference asks for. The one that was dirty first comes first.
	fresh, judged [laneCount]heap
	// backoff holds the entries in state waiting, by due time, ages every batch by the
	// time it is dirty.
	backoff heap
	ages    [laneCount]heap
	// busy counts the keys with a worker by the place that they hold.
	busy                     [placeCount]int
	compareTurns, writeTurns turns
	// late is when a request of a namespace was last late, bulkheads are those in use.
	late      map[string]time.Time
	bulkheads map[group]*bulkhead
	// given counts the places of removals (true), and of others, that were given up and
	// not taken since; oldest tells that the next goes to the one that was dirty first.
	given  map[bool]int
	oldest map[bool]bool
	// bulkAt is when a key was last written in the bulk lane.
	bulkAt time.Time
	lag    lag
	// idle are workers blocked in Get, last come first served: a warm goroutine
	// is cheaper than a cold one.
	idle []*waiter
	// timer fires when the first of backoff is due; nil before the first retry.
	timer *time.Timer
	// away and trial: see SetAway and RetryNow.
	away, trial bool
	shut        bool
}

// New returns an empty queue.
func New(opts Options) *Queue {
	q := &Queue{opts: opts.withDefaults(), entries: map[syncer.Key]*entry{}, working: map[*entry]struct{}{}, lag: lag{}}
	q.late, q.bulkheads = map[string]time.Time{}, map[group]*bulkhead{}
	q.given, q.oldest = map[bool]int{}, map[bool]bool{}
	q.slots = newSlots(q.opts, q)
	return q
}

// Workers is the number of goroutines that should call Get. Most of them are idle: how
// much is done at once is decided by places and slots.
func (q *Queue) Workers() int {
	places := q.opts.Workers + q.opts.Most
	return places + q.opts.Compare + mostApart*q.opts.Workers + places // one namespace more gives its places away
}

// Add makes a key dirty. The lane is what the news may mean; what it does mean is
// computed before anything is written (Admit). For a key that waits already the
// causes merge; for one that is with a worker they merge into a new wait, which
// begins when the worker is done. A key in backoff stays there, unless the cause is
// news from a cluster, which is worth an attempt before its time, though never within
// Backoff.Base of the last one, nor while SetAway says that attempts are in vain. Only a
// removal is worth one before a moment that a server asked for, as it may be written where
// others are to wait. News is what is live and not bulk, each removal that a cluster tells,
// also by a list, and what an edit of the configuration or a stale member changes, which may
// take addresses away. An arrival of zero counts as now. After ShutDown Add does nothing.
func (q *Queue) Add(key syncer.Key, lane Lane, cause record.Cause) {
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return
	}
	now := time.Now()
	if cause.Arrival.IsZero() {
		cause.Arrival = now
	}
	e := q.entries[key]
	raise := false
	if e == nil {
		e = newEntry(key)
		q.entries[key] = e
		q.lockedAbsorb(e, lane, cause, now)
		q.lockedReady(e, now)
	} else {
		raise = e.state == stateWorking && lane == Removal
		q.lockedMerge(e, lane, cause, now)
	}
	q.lockedDispatch()
	q.mu.Unlock()
	if raise { // the removal waits for what the worker sends
		q.slots.raise(key)
	}
	if q.opts.Observer != nil {
		q.opts.Observer.Added(lane)
	}
}

func (q *Queue) lockedAbsorb(e *entry, lane Lane, cause record.Cause, now time.Time) {
	b := &e.pending
	if b.enqueued.IsZero() {
		b.lane = lane
	}
	b.absorb(cause, now)
	b.judged = false
	q.lockedAge(b, min(b.lane, lane))
	q.lag.stamp(b, cause.Cluster, cause.Arrival)
	q.lockedCount(e)
}

func (q *Queue) lockedMerge(e *entry, lane Lane, cause record.Cause, now time.Time) {
	q.lockedAbsorb(e, lane, cause, now)
	switch e.state {
	case stateReady:
		q.lockedLeave(e)
		q.lockedReady(e, e.readySince)
	case stateWaiting:
		if news(lane, &cause) && (!e.asked || lane == Removal) && !q.away {
			e.asked = false
			q.lockedRetryNow(e, now)
		}
	case stateWorking: // Done, Retry or Admit brings it back
		if !news(lane, &cause) {
			return
		}
		e.news, e.lost = true, e.lost || lane == Removal
		if lane == Removal && e.interrupt != nil {
			e.interrupt()
			e.interrupt = nil
		}
		if e.told != nil {
			e.told()
			e.told = nil
		}
	}
}

func news(lane Lane, cause *record.Cause) bool {
	return cause.Live && lane != Bulk || cause.Cluster != "" && lane == Removal || cause.Event == "config" || cause.Event == "stale"
}

// lockedRetryNow moves the end of a backoff to the floor.
func (q *Queue) lockedRetryNow(e *entry, now time.Time) {
	due := e.failedAt.Add(q.opts.Backoff.Base)
	if !due.Before(e.due.at) {
		return
	}
	q.backoff.remove(&e.due)
	if due.After(now) {
		q.lockedWait(e, due)
		return
	}
	q.lockedReady(e, now)
}

// Get waits for the most urgent key that may be taken and hands it to the
// caller. ok is false once ctx is done or the queue is shut down.
func (q *Queue) Get(ctx context.Context) (item Item, ok bool) {
	if ctx.Err() != nil {
		return Item{}, false
	}
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return Item{}, false
	}
	if e := q.lockedNext(); e != nil {
		item = q.lockedHand(e)
		q.mu.Unlock()
		return item, true
	}
	w := &waiter{items: make(chan Item, 1)}
	q.idle = append(q.idle, w)
	q.mu.Unlock()

	select {
	case item, ok = <-w.items:
	case <-ctx.Done():
		q.leave(w)
		// Closed by ShutDown or leave; or filled just before: then it is ours to do.
		item, ok = <-w.items
	}
	return item, ok
}

// Done ends the work on a key with success: its failures are forgotten, and if
// events arrived meanwhile it waits again. A key that no worker holds is ignored.
func (q *Queue) Done(key syncer.Key) {
	q.mu.Lock()
	e := q.entries[key]
	if e == nil || e.state != stateWorking {
		q.mu.Unlock()
		return
	}
	now := time.Now()
	took := q.lockedTook(e)
	q.lockedFree(e)
	q.lag.clear(&e.working)
	q.lockedForgetAge(&e.working)
	e.working = batch{}
	e.failures = 0
	q.lockedCount(e)
	if e.pending.enqueued.IsZero() || q.shut {
		q.lockedForget(e)
	} else {
		q.lockedReady(e, now)
	}
	q.lockedDispatch()
	q.mu.Unlock()
	took()
}

// Retry ends the work on an item with failure: the key returns with all its
// causes, those that arrived meanwhile included, after its backoff. after > 0
// is a delay that the server asked for (Retry-After); it takes the backoff's
// place, is never shortened and does not count as a failure of the key.
func (q *Queue) Retry(item Item, after time.Duration) {
	q.mu.Lock()
	e := q.entries[item.Key]
	if e == nil || e.state != stateWorking {
		q.mu.Unlock()
		return
	}
	now := time.Now()
	took := q.lockedTook(e)
	q.lockedFree(e)
	e.asked, e.failedAt = after > 0, now
	q.lockedRejoin(e)
	var delay time.Duration
	if after > 0 {
		if delay = spread(after); e.lost && !q.away {
			delay, e.asked = q.opts.Backoff.Base, false
		}
	} else {
		e.failures++
		q.lockedCount(e)
		delay = q.opts.Backoff.delay(e.failures)
		if e.news && !q.away { // the attempt did not know it
			delay = q.opts.Backoff.Base
		}
	}
	lane := e.pending.lane
	if q.shut {
		q.lockedForget(e)
	} else {
		q.lockedWait(e, now.Add(delay))
	}
	q.lockedDispatch()
	q.mu.Unlock()
	took()
	if q.opts.Observer != nil {
		q.opts.Observer.Retried(lane, delay)
	}
}

// lockedRejoin merges what the worker held into what is pending. The causes are
// copied: a change record may still refer to the worker's.
func (q *Queue) lockedRejoin(e *entry) {
	working := e.working
	working.causes = slices.Clone(working.causes)
	e.working = batch{}
	for _, n := range working.stamps {
		q.lag.stamp(&e.pending, n.cluster, n.at)
	}
	q.lag.clear(&working)
	q.lockedForgetAge(&working)
	q.lockedForgetAge(&e.pending) // its own age is no longer the oldest
	e.pending.join(working)
	q.lockedAge(&e.pending, e.pending.lane)
	q.lockedCount(e)
}

// ShutDown makes every Get return and every Add do nothing. Keys that wait are
// forgotten; workers end what they hold. A second call does nothing.
func (q *Queue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	q.shut = true
	if q.timer != nil {
		q.timer.Stop()
	}
	for _, w := range q.idle {
		close(w.items)
	}
	q.idle = nil
	for _, e := range q.entries {
		if e.state != stateWorking {
			q.lockedForget(e)
		}
	}
	q.fresh, q.judged, q.backoff, q.bulkheads = [laneCount]heap{}, [laneCount]heap{}, nil, map[group]*bulkhead{}
}
