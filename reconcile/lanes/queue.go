// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Queue is the set of keys that wait for a worker. All methods are safe for
// concurrent use. Each Item that Get returns must be ended by exactly one call
// of Done or Retry.
type Queue struct {
	opts Options

	mu sync.Mutex
	// entries holds every key that waits, is in backoff or is with a worker, and
	// no other.
	entries map[syncer.Key]*entry
	// ready holds, lane by lane, the entries in state ready.
	ready [laneCount]fifo
	// backoff holds the entries in state waiting, by due time.
	backoff heap
	// busy counts the entries with a worker by the lane they were taken from, but for
	// those that are stalled.
	busy    [laneCount]int
	stalled int
	// live is when a key that is not bulk was last taken or ended; calm is closed when
	// none is in work any more, and nil while none is.
	live time.Time
	calm chan struct{}
	lag  lag
	// idle are workers blocked in Get, last come first served: a warm goroutine
	// is cheaper than a cold one.
	idle []*waiter
	// timer fires when the first of backoff is due; nil before the first retry.
	timer *time.Timer
	away  bool // see SetAway
	shut  bool
}

// New returns an empty queue.
func New(opts Options) *Queue {
	return &Queue{opts: opts.withDefaults(), entries: map[syncer.Key]*entry{}, lag: lag{}}
}

// Workers is the number of goroutines that should call Get.
func (q *Queue) Workers() int { return q.opts.Workers }

// Add makes a key dirty. For a key that waits already the causes merge; for one
// that is with a worker they merge into a new wait, which begins when the
// worker is done. A key in backoff stays there, unless the cause is news from a
// cluster, which is worth an attempt before its time, though never within
// Backoff.Base of the last one, nor before a moment that a server asked for, nor while
// SetAway says that attempts are in vain. News is what is live and not bulk, and each
// removal that a cluster tells, also by a list. An arrival of zero counts as now. After
// ShutDown Add does nothing.
func (q *Queue) Add(key syncer.Key, lane Lane, cause metrics.Cause) {
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
	if e == nil {
		e = &entry{key: key, due: node{index: absent}}
		e.due.entry = e
		q.entries[key] = e
		q.lockedAbsorb(e, lane, cause, now)
		q.lockedReady(e, now)
	} else {
		q.lockedMerge(e, lane, cause, now)
	}
	q.lockedDispatch()
	q.mu.Unlock()
	if q.opts.Observer != nil {
		q.opts.Observer.Added(lane)
	}
}

func (q *Queue) lockedAbsorb(e *entry, lane Lane, cause metrics.Cause, now time.Time) {
	e.pending.absorb(lane, cause, now)
	q.lag.stamp(&e.pending, cause.Cluster, cause.Arrival)
}

func (q *Queue) lockedMerge(e *entry, lane Lane, cause metrics.Cause, now time.Time) {
	before := e.pending.lane
	q.lockedAbsorb(e, lane, cause, now)
	switch e.state {
	case stateReady:
		if e.pending.lane < before {
			q.ready[before].remove(e)
			q.lockedReady(e, now)
		}
	case stateWaiting:
		if news(lane, &cause) && !e.asked && !q.away {
			q.lockedHasten(e, now)
		}
	case stateWorking: // Done or Retry brings it back
		e.news = e.news || news(lane, &cause)
	}
}

func news(lane Lane, cause *metrics.Cause) bool {
	return cause.Live && lane != Bulk || cause.Cluster != "" && lane == Removal
}

// lockedHasten moves the end of a backoff to the floor.
func (q *Queue) lockedHasten(e *entry, now time.Time) {
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
	if e := q.lockedTake(); e != nil {
		item = q.lockedHand(e)
		q.mu.Unlock()
		q.taken(item)
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
	if ok {
		q.taken(item)
	}
	return item, ok
}

func (q *Queue) taken(item Item) {
	if q.opts.Observer != nil {
		q.opts.Observer.Taken(item.Lane, time.Since(item.readySince))
	}
}

// Done ends the work on a key with success: its failures are forgotten, and if
// events arrived meanwhile it waits again. A key that no worker holds is ignored.
func (q *Queue) Done(key syncer.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.state != stateWorking {
		return
	}
	now := time.Now()
	q.lockedFree(e)
	q.lag.clear(&e.working)
	e.working = batch{}
	e.failures = 0
	if e.pending.enqueued.IsZero() || q.shut {
		q.lockedForget(e)
	} else {
		q.lockedReady(e, now)
	}
	q.lockedDispatch()
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
	q.lockedFree(e)
	e.asked, e.failedAt = after > 0, now
	q.lockedRejoin(e)
	var delay time.Duration
	if after > 0 {
		delay = spread(after)
	} else {
		e.failures++
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
	e.pending.join(working)
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
	q.ready = [laneCount]fifo{}
	q.backoff = nil
}
