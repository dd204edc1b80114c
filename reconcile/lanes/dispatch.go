// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"time"
)

// waiter is a worker blocked in Get. items has room for one, so handing over
// never blocks while the lock is held; it is closed when there will be none.
type waiter struct {
	items chan Item
}

// leave takes a waiter whose context ended off the idle list. If it is there no
// more, its channel was filled or closed already.
func (q *Queue) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.idle, w); i >= 0 {
		q.idle = slices.Delete(q.idle, i, i+1)
		close(w.items)
	}
}

// lockedDispatch hands keys to idle workers as long as there are both.
func (q *Queue) lockedDispatch() {
	for len(q.idle) > 0 {
		e := q.lockedTake()
		if e == nil {
			return
		}
		last := len(q.idle) - 1
		w := q.idle[last]
		q.idle[last] = nil
		q.idle = q.idle[:last]
		w.items <- q.lockedHand(e)
	}
}

// lockedTake removes the most urgent key that may be taken now from its lane;
// nil when there is none.
func (q *Queue) lockedTake() *entry {
	for _, lane := range lanes {
		if q.ready[lane].head != nil && q.lockedMay(lane) {
			e := q.ready[lane].head
			q.ready[lane].remove(e)
			return e
		}
	}
	return nil
}

// lockedMay reports whether one more key of the lane may be in work.
func (q *Queue) lockedMay(lane Lane) bool {
	if lane == Removal {
		return true
	}
	if q.busy[Addition]+q.busy[Bulk] >= q.opts.Workers-q.opts.Reserve {
		return false
	}
	return lane != Bulk || q.busy[Bulk] < q.lockedBulk()
}

// lockedHand turns an entry that was just taken into a worker's Item.
func (q *Queue) lockedHand(e *entry) Item {
	e.working, e.pending = e.pending, batch{}
	e.state = stateWorking
	e.asked, e.news, e.takenAt = false, false, time.Now()
	b := &e.working
	q.lockedBusy(b.lane, 1)
	e.turn++
	return Item{
		Key: e.key, Lane: b.lane, Causes: b.causes, Dropped: b.dropped,
		FirstArrival: b.first, Enqueued: b.enqueued, Attempt: e.failures,
		readySince: e.readySince, turn: e.turn,
	}
}

// lockedReady puts an entry at the end of the lane that its causes ask for.
func (q *Queue) lockedReady(e *entry, now time.Time) {
	e.state, e.readySince = stateReady, now
	q.ready[e.pending.lane].push(e)
}

// lockedWait puts an entry into backoff.
func (q *Queue) lockedWait(e *entry, due time.Time) {
	e.state, e.due.at = stateWaiting, due
	q.backoff.push(&e.due)
	if q.backoff.first() == &e.due {
		q.lockedArm()
	}
}

// lockedArm sets the timer for the first key in backoff.
func (q *Queue) lockedArm() {
	first := q.backoff.first()
	if first == nil {
		return
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(first.at), q.promote)
		return
	}
	q.timer.Reset(time.Until(first.at))
}

// promote moves the keys whose backoff is over into their lanes. It runs in the
// timer's goroutine and ends without blocking.
func (q *Queue) promote() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return
	}
	now := time.Now()
	for first := q.backoff.first(); first != nil && !first.at.After(now); first = q.backoff.first() {
		q.backoff.remove(first)
		q.lockedReady(first.entry, now)
	}
	q.lockedArm()
	q.lockedDispatch()
}

// lockedForget drops a key with all that it remembers.
func (q *Queue) lockedForget(e *entry) {
	q.lag.clear(&e.pending)
	delete(q.entries, e.key)
}

// fifo is a lane: a list threaded through its entries, so that a key that is
// raised leaves its old lane in constant time.
type fifo struct {
	head, tail *entry
	len        int
}

func (f *fifo) push(e *entry) {
	e.prev, e.next = f.tail, nil
	if f.tail == nil {
		f.head = e
	} else {
		f.tail.next = e
	}
	f.tail = e
	f.len++
}

func (f *fifo) remove(e *entry) {
	if e.prev == nil {
		f.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		f.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	f.len--
}
