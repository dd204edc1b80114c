// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"slices"
	"time"
)

// Admit asks to write a key whose difference has been computed, in the lane that the
// difference asks for. Where there is room the caller goes on, with the item changed to
// that lane. Otherwise, or when others were there before, it returns false: the item
// has ended, and the key waits in that lane to be taken again.
func (q *Queue) Admit(item *Item, lane Lane) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.lockedHeld(item)
	if e == nil {
		return true // it ended already: nothing that a queue could decide
	}
	defer q.lockedDispatch() // the place it had may serve another
	if !q.lockedAdmits(e, item, lane) {
		q.lockedPutBack(e, lane)
		return false
	}
	item.Lane = lane
	q.lockedAge(&e.working, lane)
	q.lockedCount(e)
	e.working.judged = true
	switch {
	case q.lockedApart(e):
		q.lockedSetApart(e, lane)
	case e.bulkhead == nil || e.bulkhead.removal != (lane == Removal):
		q.lockedMove(e, place(lane))
	}
	return true
}

// lockedHeld is the entry of an item that a worker has; nil once it has ended.
func (q *Queue) lockedHeld(item *Item) *entry {
	e := q.entries[item.Key]
	if e == nil || e.state != stateWorking || e.generation != item.generation {
		return nil
	}
	return e
}

// OnRemoval has f called, once and without waiting, when a cluster tells of a removal
// for a key that a worker has: what the worker does is out of date. It takes the place
// of an earlier f, and lasts until the item has ended.
func (q *Queue) OnRemoval(item Item, f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.lockedHeld(&item); e != nil {
		e.interrupt = f
	}
}

// OnNews has f called, once and without waiting, when a cluster tells of anything for a key
// that a worker has, or has told since the last Refresh.
func (q *Queue) OnNews(item Item, f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.lockedHeld(&item); e != nil {
		if e.told = f; !e.pending.enqueued.IsZero() {
			e.told = nil
			f()
		}
	}
}

// Refresh adds to an item what made its key dirty since it was handed out, and reports
// whether there was anything. Call it before what is known is asked for: what is decided
// then is for all of that, and it does not make the key be taken once more.
func (q *Queue) Refresh(item *Item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.lockedHeld(item)
	if e == nil || e.pending.enqueued.IsZero() {
		return false
	}
	b, fresh := &e.working, e.pending
	e.pending = batch{}
	for _, n := range fresh.stamps {
		q.lag.stamp(b, n.cluster, n.at)
	}
	q.lag.clear(&fresh)
	q.lockedForgetAge(&fresh)
	q.lockedAge(b, min(b.lane, fresh.lane))
	q.lockedCount(e)
	b.causes = slices.Clone(b.causes) // a change record may refer to them
	b.dropped += fresh.dropped
	for _, cause := range fresh.causes {
		b.keep(cause)
	}
	item.Causes, item.Dropped = b.causes, b.dropped
	return true
}

func (q *Queue) lockedAdmits(e *entry, item *Item, lane Lane) bool {
	switch {
	case item.Trial:
		return true
	case q.away:
		return false
	case e.place == place(lane), e.bulkhead != nil && e.bulkhead.removal == (lane == Removal):
		return true
	case lane != Removal && (e.place == place(Addition) || e.place == place(Bulk)): // it holds a place already
		return true
	case q.lockedApart(e):
		return q.lockedAdmitsApart(e, lane)
	case lane == Removal:
		return q.busy[Removal] < q.opts.Workers
	case len(q.judged[lane]) > 0, lane == Bulk && !q.lockedBulkMayBut(e):
		return false
	}
	others := q.busy[Addition] + q.busy[Bulk]
	return others == 0 || others < min(q.opts.Most, q.slots.room())
}

// lockedBulkMayBut is lockedBulkMay as if a key were not being compared any more.
func (q *Queue) lockedBulkMayBut(e *entry) bool {
	if e.place != comparing {
		return q.lockedBulkMay()
	}
	q.busy[comparing]--
	defer func() { q.busy[comparing]++ }()
	return q.lockedBulkMay()
}

// lockedPutBack lets a key that was compared wait in its lane, or be compared again
// where there is news of it.
func (q *Queue) lockedPutBack(e *entry, lane Lane) {
	q.lockedFree(e)
	q.lockedAge(&e.working, lane)
	fresh := !e.pending.enqueued.IsZero()
	q.lockedRejoin(e)
	e.pending.judged = !fresh
	if q.shut {
		q.lockedForget(e)
		return
	}
	q.lockedReady(e, time.Now())
}

// Acquire waits for the right to send a request about an item, lane by lane.
// The error is ctx's.
func (q *Queue) Acquire(ctx context.Context, item Item) (*Slot, error) {
	lane, apart := item.Lane, false
	q.mu.Lock()
	if e := q.lockedHeld(&item); e != nil {
		apart = e.bulkhead != nil
		if e.pending.lane == Removal && !e.pending.enqueued.IsZero() {
			lane = Removal // one waits for this
		}
	}
	q.mu.Unlock()
	return q.slots.acquire(ctx, item, lane, apart)
}

// freed hands out keys when there may be room for one.
func (q *Queue) freed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shut {
		q.lockedDispatch()
	}
}

// lockedTook returns what tells the observer, without the lock, that a key was taken.
func (q *Queue) lockedTook(e *entry) func() {
	if q.opts.Observer == nil {
		return func() {}
	}
	lane, waited := e.working.lane, e.takenAt.Sub(e.readySince)
	return func() { q.opts.Observer.Taken(lane, waited) }
}
