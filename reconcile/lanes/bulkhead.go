// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// Writes that are not answered, or late, must not take the places of those that would be
// answered at once. So a key of which one was late, and every key of a namespace in which
// one was, goes through a bulkhead: it waits in a line of its own and has a place apart,
// of which no bulkhead gets more than what it leaves free.

const (
	// lateFor is how long a namespace counts as late after a late answer, unless one is
	// answered in time.
	lateFor = time.Minute
)

// group are the keys that share a bulkhead: of one namespace, removals or others, those
// that were late themselves or those that only have such neighbours.
type group struct {
	namespace string
	removal   bool
	late      bool
}

// bulkhead is what a group has: its line, and how many of its keys are with a worker.
type bulkhead struct {
	group
	line heap
	held int
}

func (b *bulkhead) place() place {
	if b.removal {
		return apartRemoval
	}
	return apartOther
}

// lockedIsLate reports whether a request of a namespace was late, and none in time since.
func (q *Queue) lockedIsLate(namespace string) bool {
	at, ok := q.late[namespace]
	return ok && time.Since(at) < lateFor
}

// lockedApart reports whether a key may be written only through a bulkhead.
func (q *Queue) lockedApart(e *entry) bool {
	return e.late || q.lockedIsLate(e.key.Namespace)
}

// lockedBulkhead is that of a key in a lane.
func (q *Queue) lockedBulkhead(e *entry, lane Lane) *bulkhead {
	g := group{namespace: e.key.Namespace, removal: lane == Removal, late: e.late}
	b := q.bulkheads[g]
	if b == nil {
		b = &bulkhead{group: g}
		q.bulkheads[g] = b
	}
	return b
}

// lockedRelease takes a key out of its bulkhead, which is forgotten when it was the last.
func (q *Queue) lockedRelease(e *entry) {
	if e.bulkhead != nil {
		q.lockedTidy(e.bulkhead)
	}
	e.bulkhead = nil
}

func (q *Queue) lockedTidy(b *bulkhead) {
	if b.held == 0 && len(b.line) == 0 {
		delete(q.bulkheads, b.group)
	}
}

// lockedAdmitsApart reports whether a key may have a place apart, and none was there before.
func (q *Queue) lockedAdmitsApart(e *entry, lane Lane) bool {
	b := q.lockedBulkhead(e, lane)
	defer q.lockedTidy(b)
	return len(b.line) == 0 && q.lockedHasRoom(b)
}

// lockedHasRoom reports whether a bulkhead may have one more place: no more than are left
// free. So there is one for whoever comes next, however many others hold theirs.
func (q *Queue) lockedHasRoom(b *bulkhead) bool {
	places := 2 * q.opts.Workers
	if !b.removal {
		places = max(2, q.opts.Workers/2) // these go by no window
	}
	return b.held < places-q.busy[b.place()]
}

// lockedNextApart is the most urgent key that may have a place apart.
func (q *Queue) lockedNextApart() *entry {
	var first *node
	for _, b := range q.bulkheads {
		if n := b.line.first(); n != nil && q.lockedHasRoom(b) && (first == nil || n.before(first)) {
			first = n
		}
	}
	if first == nil {
		return nil
	}
	return first.entry
}

// lockedPart moves keys of late namespaces from the head of a line to their bulkheads.
func (q *Queue) lockedPart(line *heap) {
	for e := line.entry(); len(q.late) > 0 && e != nil && q.lockedApart(e); e = line.entry() {
		q.lockedLeave(e)
		q.lockedReady(e, e.readySince)
	}
}

// lockedSetApart gives a key with a worker a place apart.
func (q *Queue) lockedSetApart(e *entry, lane Lane) {
	q.lockedBusy(e, -1)
	q.lockedRelease(e)
	e.bulkhead = q.lockedBulkhead(e, lane)
	e.place = e.bulkhead.place()
	q.lockedBusy(e, 1)
}

// lockedNewest is the key of some lines that was dirty last, where it is to have the place:
// every other one that was given up. Those before it may be any number that are not answered
// either, and as each of their namespaces is so found out, they are not passed over for long.
func (q *Queue) lockedNewest(removal bool, lines ...heap) *entry {
	if q.given[removal] == 0 {
		return nil
	}
	var last *node
	for _, line := range lines {
		for _, n := range line {
			if (last == nil || n.rank < last.rank || n.rank == last.rank && last.at.Before(n.at)) && !q.lockedApart(n.entry) {
				last = n
			}
		}
	}
	if last == nil {
		return nil
	}
	q.given[removal]--
	if q.oldest[removal] = !q.oldest[removal]; !q.oldest[removal] {
		return nil
	}
	return last.entry
}

// stall gives away the places of a namespace in which a request is not answered.
func (q *Queue) stall(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := range q.working {
		if e.key.Namespace == namespace && e.place != comparing && e.bulkhead == nil {
			q.lockedLate(e)
			q.given[e.place == place(Removal)]++
			q.lockedSetApart(e, Lane(e.place))
		}
	}
}

// SetApart takes the place among removals from a key that has more to ask than one write
// needs, so that no other waits for that. Its neighbours count as late meanwhile: they would
// ask as much.
func (q *Queue) SetApart(item Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.lockedHeld(&item)
	if e == nil || e.place != place(Removal) || q.busy[apartRemoval] >= mostApart*q.opts.Workers/2 {
		return
	}
	q.lockedLate(e)
	q.lockedSetApart(e, Removal)
	if !q.shut {
		q.lockedDispatch()
	}
}

// isLate has a key apart count as late, so that its neighbours do not wait for it.
func (q *Queue) isLate(item Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.lockedHeld(&item); e != nil && e.bulkhead != nil && !e.late {
		q.lockedLate(e)
		lane := Addition
		if e.bulkhead.removal {
			lane = Removal
		}
		q.lockedSetApart(e, lane)
	}
}

// lockedLate notes that a request for a key was late.
func (q *Queue) lockedLate(e *entry) {
	e.late = true
	for other := range q.late {
		if !q.lockedIsLate(other) {
			delete(q.late, other)
		}
	}
	q.late[e.key.Namespace] = time.Now()
}

// ended takes how long a request of an item took, and whether it has succeeded.
func (q *Queue) ended(item Item, took time.Duration, good bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.lockedHeld(&item)
	switch {
	case e == nil:
	case took >= stalledAfter:
		q.lockedLate(e)
	case good:
		e.late = false
		if !q.lockedUnanswered(item.Key.Namespace) {
			delete(q.late, item.Key.Namespace)
		}
	}
	if !q.shut {
		q.lockedDispatch()
	}
}

// lockedUnanswered reports whether a key that was late is with a worker.
func (q *Queue) lockedUnanswered(namespace string) bool {
	for _, removal := range []bool{true, false} {
		if b := q.bulkheads[group{namespace: namespace, removal: removal, late: true}]; b != nil && b.held > 0 {
			return true
		}
	}
	return false
}
