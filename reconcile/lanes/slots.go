// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/syncer"
)

// Removals overtake other work in the queue, but not at the API server: what has been
// sent there competes with them. So each request has a slot while it is under way, and
// the slots of additions and bulk work are as many as the measured time of requests
// allows: many while nothing else goes on, few beside removals, and while one of those
// is under way no other begins, though not for long.

// slots hands out the right to send requests. All methods are safe for concurrent use.
type slots struct {
	// mostStalled bounds the keys whose requests have no place among the others, atOnce
	// those of which any number may give it up at a time.
	mostStalled, atOnce int
	// queue is told, without the lock, when a place may have become free, what became of
	// a request, and when a namespace is to give up its places.
	queue *Queue

	mu sync.Mutex
	// calm and beside are the windows without and with removals about.
	calm, beside congestion
	undisturbed  undisturbed
	bucket       bucket
	turns        turns
	waiting      [laneCount][]*Slot
	// flying are the requests under way in the order of their sending, held how many
	// of them have a place, stalled how many of each key have none: they gave it up, or
	// are apart.
	flying  []*Slot
	held    [laneCount]int
	stalled map[syncer.Key]int
	// removalAt is when a removal was last sent or answered, otherAt when anything else
	// was last sent.
	removalAt, otherAt time.Time
	// stalledAt is when a namespace last gave up its places for want of any answer.
	stalledAt time.Time
	timer     *time.Timer
	wakeAt    time.Time
}

// Slot is the right to send one request. It ends with exactly one call of End.
type Slot struct {
	slots *slots
	item  Item
	lane  Lane
	// granted is closed when it may be sent; set only where that was waited for.
	granted chan struct{}
	sent    time.Time
	// apart is set where it goes through a bulkhead.
	apart bool
	// beside, full and alone are how things stood when it was sent.
	beside, full, alone bool
	flying              bool
	// stalled is set when it has no place, late where the queue knows that it is late.
	stalled, late bool
}

const (
	// calmTolerance and besideTolerance are how many times as long as an undisturbed
	// one a request of bulk work or of an addition may take.
	calmTolerance   = 16
	besideTolerance = 3
	// calmAfter is how long after a removal other work grows wide again. Whoever comes
	// next finds what is under way by then, so it is as long as a storm makes pauses.
	calmAfter = time.Second
	// shareEvery is how often something else is sent while removals are under way
	// without end.
	shareEvery = 10 * time.Millisecond
	// stalledAfter is when a namespace in which a request is not answered gives up its
	// places: far beyond what a busy API server takes. Unless others that were sent later
	// are answered soon, which tells that the server is not slow, one does so each second
	// once twice the places are given up.
	stalledAfter = time.Second
	// mostApart is how many times as many keys as there are places for removals may have
	// none when one more namespace gives up its own.
	mostApart = 10
	// overtaken is how many times sooner such an answer must come.
	overtaken = 4
)

func newSlots(opts Options, queue *Queue) *slots {
	return &slots{
		mostStalled: mostApart * opts.Workers, atOnce: 2 * opts.Workers, queue: queue, stalled: map[syncer.Key]int{},
		calm: newCongestion(opts.Most, calmTolerance), beside: newCongestion(opts.Most, besideTolerance),
		bucket: newBucket(opts.QPS, opts.Burst, time.Now()),
	}
}

// room is how many keys that are no removals may be written at once: twice the requests,
// for a key that has had an answer needs time to send what comes next. Under a limit it is
// 0 while one waits for a slot already: a key that waits in its lane is written as it is by
// then.
func (s *slots) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting[Addition])+len(s.waiting[Bulk]) > 0 && s.bucket.rate > 0 {
		return 0
	}
	return 2 * s.lockedWindow(time.Now()).limit()
}

// lockedWindow is the window that counts now.
func (s *slots) lockedWindow(now time.Time) *congestion {
	if s.held[Removal] > 0 || now.Sub(s.removalAt) < calmAfter {
		return &s.beside
	}
	return &s.calm
}

// acquire waits for a slot in the lane. The error is ctx's.
func (s *slots) acquire(ctx context.Context, item Item, lane Lane, apart bool) (*Slot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	slot := &Slot{slots: s, item: item, lane: lane, apart: apart}
	s.mu.Lock()
	if s.waits() == [laneCount]bool{} && s.lockedMay(slot, time.Now()) == 0 {
		s.lockedSend(slot, time.Now())
		s.mu.Unlock()
		return slot, nil
	}
	slot.granted = make(chan struct{})
	s.waiting[lane] = append(s.waiting[lane], slot)
	s.lockedGrant(time.Now())
	s.mu.Unlock()
	select {
	case <-slot.granted:
		s.queue.freed()
		return slot, nil
	case <-ctx.Done():
		s.leave(slot)
		return nil, ctx.Err()
	}
}

// leave ends a slot whose owner does not wait any more.
func (s *slots) leave(slot *Slot) {
	s.mu.Lock()
	s.waiting[slot.lane] = slices.DeleteFunc(s.waiting[slot.lane], slot.is)
	flying := slot.flying // granted just before
	s.mu.Unlock()
	if flying {
		slot.End(Unmeasured)
	}
}

// raise lets requests of a key that wait do so among removals.
func (s *slots) raise(key syncer.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes[Addition:] {
		kept := s.waiting[lane][:0:0]
		for _, slot := range s.waiting[lane] {
			if slot.item.Key == key {
				slot.lane = Removal
				s.waiting[Removal] = append(s.waiting[Removal], slot)
			} else {
				kept = append(kept, slot)
			}
		}
		s.waiting[lane] = kept
	}
	s.lockedGrant(time.Now())
}

func (s *Slot) is(other *Slot) bool { return s == other }

// waits tells which lanes have requests waiting.
func (s *slots) waits() (waits [laneCount]bool) {
	for _, lane := range lanes {
		waits[lane] = len(s.waiting[lane]) > 0
	}
	return waits
}

// never is the time until something that no clock brings.
const never = time.Hour

// lockedMay returns how long a request has to wait: 0: not at all; never: until another
// ends.
func (s *slots) lockedMay(slot *Slot, now time.Time) time.Duration {
	if wait := s.bucket.ready(now); wait > 0 || slot.lane == Removal || slot.apart {
		return wait
	}
	if s.held[Addition]+s.held[Bulk] >= s.lockedWindow(now).limit() {
		return never
	}
	if s.held[Removal] > 0 {
		return max(0, s.otherAt.Add(shareEvery).Sub(now))
	}
	return 0
}

// lockedGrant sends what may be sent.
func (s *slots) lockedGrant(now time.Time) {
	for {
		waits := s.waits()
		wake := time.Duration(never)
		for _, lane := range lanes { // without those that something other than a turn holds back
			if waits[lane] {
				wait := s.lockedMay(s.waiting[lane][0], now)
				waits[lane] = wait == 0
				wake = min(wake, wait)
			}
		}
		lane, ok := s.turns.next(waits)
		if !ok {
			if wake < never {
				s.lockedWake(now, wake)
			}
			return
		}
		s.turns.took(lane, waits)
		slot := s.waiting[lane][0]
		s.waiting[lane][0] = nil
		s.waiting[lane] = s.waiting[lane][1:]
		s.lockedSend(slot, now)
		close(slot.granted)
	}
}

// lockedSend notes that a request is sent.
func (s *slots) lockedSend(slot *Slot, now time.Time) {
	s.bucket.take()
	slot.sent, slot.flying, slot.stalled = now, true, slot.apart
	if slot.apart {
		s.stalled[slot.item.Key]++
	} else if s.held[slot.lane]++; slot.lane == Removal {
		s.removalAt = now
	} else {
		s.otherAt = now
	}
	slot.alone = s.held[Removal]+s.held[Addition]+s.held[Bulk] <= 2 // two kinds are written at once
	window := s.lockedWindow(now)
	slot.beside = window == &s.beside
	slot.full = s.held[Addition]+s.held[Bulk] >= window.limit()
	s.flying = append(s.flying, slot)
	s.lockedWake(now, stalledAfter)
}

// End ends the request. A second call does nothing.
func (s *Slot) End(outcome Outcome) { s.slots.end(s, outcome) }

func (s *slots) end(slot *Slot, outcome Outcome) {
	now := time.Now()
	s.mu.Lock()
	if !slot.flying {
		s.mu.Unlock()
		return
	}
	slot.flying = false
	s.flying = slices.DeleteFunc(s.flying, slot.is)
	if slot.stalled {
		if s.stalled[slot.item.Key]--; s.stalled[slot.item.Key] == 0 {
			delete(s.stalled, slot.item.Key)
		}
	} else {
		s.held[slot.lane]--
	}
	if slot.lane == Removal && !slot.apart {
		s.removalAt = now
	}
	if !slot.apart && (!slot.stalled || outcome == Measured) { // these tell nothing about the others
		s.lockedMeasure(slot, outcome, now)
	}
	var stalled []string
	if outcome == Measured {
		stalled = s.lockedOvertaken(slot, now)
	}
	s.lockedGrant(now)
	s.mu.Unlock()
	for _, namespace := range stalled {
		s.queue.stall(namespace)
	}
	s.queue.ended(slot.item, now.Sub(slot.sent), outcome == Measured)
}

// lockedMeasure tells the windows how long a request took. A removal tells them what is
// possible, and nothing about how many others there may be.
func (s *slots) lockedMeasure(slot *Slot, outcome Outcome, now time.Time) {
	window := &s.calm
	if slot.beside {
		window = &s.beside
	}
	switch outcome {
	case Measured:
		took := now.Sub(slot.sent)
		alone := s.undisturbed.add(took, slot.alone)
		if slot.lane != Removal {
			window.answered(took, alone, slot.full)
		}
	case Congested:
		s.calm.refused()
		s.beside.refused()
	}
}

// lockedOvertaken gives up the places of those that were sent long before one that has
// been answered soon.
func (s *slots) lockedOvertaken(slot *Slot, now time.Time) (stalled []string) {
	took := now.Sub(slot.sent)
	for _, one := range s.flying {
		age := now.Sub(one.sent)
		if age < stalledAfter || len(s.stalled) >= s.mostStalled {
			break
		}
		if !one.stalled && one.sent.Before(slot.sent) && overtaken*took <= age {
			stalled = append(stalled, s.lockedStall(one))
		}
	}
	return stalled
}

// lockedStall gives up the places of all requests of a slot's namespace, and of those
// that wait for theirs.
func (s *slots) lockedStall(slot *Slot) (namespace string) {
	namespace = slot.item.Key.Namespace
	for _, one := range s.flying {
		if one.item.Key.Namespace == namespace && !one.stalled {
			one.stalled = true
			s.stalled[one.item.Key]++
			s.held[one.lane]--
		}
	}
	for _, lane := range lanes {
		for _, one := range s.waiting[lane] {
			one.apart = one.apart || one.item.Key.Namespace == namespace
		}
	}
	return namespace
}

// lockedWake sees to it that wake is called in time.
func (s *slots) lockedWake(now time.Time, in time.Duration) {
	at := now.Add(in)
	if !s.wakeAt.IsZero() && !s.wakeAt.After(at) {
		return
	}
	s.wakeAt = at
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.wake)
		return
	}
	s.timer.Reset(in)
}

// wake runs in the timer's goroutine and ends without blocking.
func (s *slots) wake() {
	now := time.Now()
	s.mu.Lock()
	s.wakeAt = time.Time{}
	next := stalledAfter
	var late []Item
	var stalled []string
	for _, one := range s.flying {
		if age := now.Sub(one.sent); age < stalledAfter {
			next = stalledAfter - age
			break
		}
		switch {
		case one.apart && !one.late:
			one.late = true
			late = append(late, one.item)
		case !one.stalled && (len(s.stalled) < s.atOnce || len(s.stalled) < s.mostStalled && now.Sub(s.stalledAt) >= stalledAfter):
			s.stalledAt = now
			stalled = append(stalled, s.lockedStall(one))
		}
	}
	s.lockedGrant(now)
	if len(s.flying) > 0 {
		s.lockedWake(now, next)
	}
	s.mu.Unlock()
	for _, item := range late {
		s.queue.isLate(item)
	}
	for _, namespace := range stalled {
		s.queue.stall(namespace)
	}
	s.queue.freed()
}
