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
		e := q.lockedNext()
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

// lockedNext is the most urgent key that may be taken now; nil when there is none. What is
// known to take something away comes first, then what may; then all news is compared, and
// what is left is written, as there is room. The server may be away: comparing goes on, so
// that the order is known when it is back.
func (q *Queue) lockedNext() *entry {
	for lane := range q.judged {
		q.lockedPart(&q.judged[lane])
	}
	q.lockedPart(&q.fresh[Removal])
	if q.busy[Removal] < q.opts.Workers {
		if q.lockedMayWrite() {
			if e := q.lockedNewest(true, q.judged[Removal], q.fresh[Removal]); e != nil {
				return e
			}
		}
		if e := q.judged[Removal].entry(); e != nil && q.lockedMayWrite() {
			return e
		}
		if e := q.fresh[Removal].entry(); e != nil {
			return e
		}
	}
	if q.busy[comparing] < q.opts.Compare {
		if e := q.lockedTurn(&q.compareTurns, &q.fresh, [laneCount]bool{Addition: true, Bulk: true}); e != nil {
			return e
		}
	}
	if !q.lockedMayWrite() {
		return nil
	}
	// With the place of a trial the most urgent goes, whatever else is in work.
	others := q.busy[Addition] + q.busy[Bulk]
	if others == 0 || others < min(q.opts.Most, q.slots.room()) || q.trial {
		if e := q.lockedNewest(false, q.judged[Addition]); e != nil {
			return e
		}
		if e := q.lockedTurn(&q.writeTurns, &q.judged, [laneCount]bool{Addition: true, Bulk: q.lockedBulkMay()}); e != nil {
			return e
		}
	}
	return q.lockedNextApart()
}

// lockedMayWrite reports whether a key may be taken to be written.
func (q *Queue) lockedMayWrite() bool { return !q.away || q.trial }

// bulkShare is how often a key of the bulk lane may be written while there is news to be
// compared first.
const bulkShare = 50 * time.Millisecond

// lockedBulkMay reports whether bulk work may be written: not before all news is
// compared, for any of it may take an address away; unless news comes without end.
func (q *Queue) lockedBulkMay() bool {
	for i := range q.fresh {
		if len(q.fresh[i]) > 0 {
			return time.Since(q.bulkAt) >= bulkShare
		}
	}
	return q.busy[comparing] == 0 || time.Since(q.bulkAt) >= bulkShare
}

// lockedTurn returns the first of the lane whose turn it is among those allowed.
func (q *Queue) lockedTurn(t *turns, lines *[laneCount]heap, allowed [laneCount]bool) *entry {
	for _, lane := range lanes {
		allowed[lane] = allowed[lane] && len(lines[lane]) > 0
	}
	lane, ok := t.next(allowed)
	if !ok {
		return nil
	}
	t.took(lane, allowed)
	return lines[lane].entry()
}

// lockedHand takes an entry from its line and turns it into a worker's Item.
func (q *Queue) lockedHand(e *entry) Item {
	apart := e.bulkhead != nil
	q.lockedLeave(e)
	e.working, e.pending = e.pending, batch{}
	e.state = stateWorking
	e.asked, e.news, e.lost, e.interrupt, e.told, e.takenAt = false, false, false, nil, nil, time.Now()
	e.generation++
	b := &e.working
	q.working[e] = struct{}{}
	e.place = place(b.lane)
	switch {
	case apart:
		e.bulkhead = q.lockedBulkhead(e, b.lane)
		e.place = e.bulkhead.place()
	case !b.judged && b.lane != Removal:
		e.place = comparing
	}
	q.lockedBusy(e, 1)
	item := Item{
		Key: e.key, Lane: b.lane, Causes: b.causes, Dropped: b.dropped, Attempt: e.failures, generation: e.generation,
	}
	if q.away && b.judged {
		item.Trial, q.trial = true, false
	}
	return item
}

// lockedBusy counts a key into the place that it holds, or out of it.
func (q *Queue) lockedBusy(e *entry, n int) {
	q.busy[e.place] += n
	if e.bulkhead != nil {
		e.bulkhead.held += n
	}
	if e.place == place(Bulk) && n > 0 {
		q.bulkAt = time.Now()
	}
}

// lockedMove gives a key with a worker another place.
func (q *Queue) lockedMove(e *entry, to place) {
	if e.place == to {
		return
	}
	q.lockedBusy(e, -1)
	q.lockedRelease(e)
	e.place = to
	q.lockedBusy(e, 1)
}

// lockedFree takes a key out of work.
func (q *Queue) lockedFree(e *entry) {
	q.lockedBusy(e, -1)
	q.lockedRelease(e)
	delete(q.working, e)
}

// lockedStand chooses the line in which an entry stands in state ready. One that failed
// comes behind all of its lane that have not.
func (q *Queue) lockedStand(e *entry) {
	lane := e.pending.lane
	e.ready.at, e.ready.rank = e.pending.enqueued, uint8(2*lane)
	if e.failures > 0 {
		e.ready.rank++
	}
	switch {
	case (e.pending.judged || lane == Removal) && q.lockedApart(e):
		e.bulkhead = q.lockedBulkhead(e, lane)
		e.in = &e.bulkhead.line
	case e.pending.judged:
		e.in = &q.judged[lane]
	default:
		e.in = &q.fresh[lane]
	}
}

// lockedReady puts an entry into its line.
func (q *Queue) lockedReady(e *entry, now time.Time) {
	e.state, e.readySince = stateReady, now
	q.lockedStand(e)
	e.in.push(&e.ready)
}

// lockedLeave takes an entry out of its line.
func (q *Queue) lockedLeave(e *entry) {
	e.in.remove(&e.ready)
	e.in = nil
	q.lockedRelease(e)
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

// promote moves the keys whose backoff is over into their lines. It runs in the
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
	q.lockedForgetAge(&e.pending)
	delete(q.entries, e.key)
}
