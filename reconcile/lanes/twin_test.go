// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// twin is the queue without any cleverness: one map, and every question is
// answered by looking at all of it.
type twin struct {
	away, trial    bool
	opts           Options
	entries        map[syncer.Key]*twinEntry
	compare, write turns
	bulkAt         time.Time
	late           map[string]time.Time
	given          map[bool]int
	eldest         map[bool]bool
}

type twinEntry struct {
	pending, working *twinBatch
	due              time.Time // zero unless in backoff
	failures         int
	failedAt         time.Time
	asked            bool
	news, lost       bool
	place            place
	trial            bool
	// late, and the bulkhead that it is in; failed is whether it had when it became ready.
	late, failed bool
	apart        *group
}

type twinBatch struct {
	lane     Lane
	judged   bool
	enqueued time.Time
	causes   []record.Cause
	dropped  int
	oldest   map[string]time.Time
}

func newTwinBatch(lane Lane) *twinBatch {
	return &twinBatch{lane: lane, enqueued: time.Now(), oldest: map[string]time.Time{}}
}

func (b *twinBatch) keep(c record.Cause) {
	b.causes = append(b.causes, c)
	if len(b.causes) <= 8 || c.Live && len(b.causes) <= 32 {
		return
	}
	b.dropped++
	out := len(b.causes) - 1
	if c.Live {
		if i := slices.IndexFunc(b.causes, func(c record.Cause) bool { return !c.Live }); i >= 0 {
			out = i
		}
	}
	b.causes = slices.Delete(slices.Clone(b.causes), out, out+1)
}

func (b *twinBatch) stamp(cluster string, at time.Time) {
	if old, ok := b.oldest[cluster]; !ok || at.Before(old) {
		b.oldest[cluster] = at
	}
}

func (e *twinEntry) isReady() bool {
	return e.pending != nil && e.working == nil && e.due.IsZero()
}

func (t *twin) add(key syncer.Key, lane Lane, c record.Cause) {
	e, known := t.entries[key]
	if !known {
		e = &twinEntry{}
		t.entries[key] = e
	}
	if e.pending == nil {
		e.pending = newTwinBatch(lane)
	}
	e.pending.lane, e.pending.judged = min(e.pending.lane, lane), false
	e.pending.keep(c)
	e.pending.stamp(c.Cluster, c.Arrival)
	switch {
	case e.isReady():
		t.stand(key, e)
	case e.working != nil:
		e.news, e.lost = e.news || tells(lane, c), e.lost || tells(lane, c) && lane == Removal
	case tells(lane, c) && !t.away:
		e.asked = e.asked && lane != Removal
		t.endBackoff(e)
	}
	t.advance()
}

// tells reports whether a cause is worth an attempt before its time.
func tells(lane Lane, c record.Cause) bool {
	return c.Live && lane < Bulk || lane == Removal && c.Cluster != "" || c.Event == "config" || c.Event == "stale"
}

func (t *twin) endBackoff(e *twinEntry) {
	if floor := e.failedAt.Add(t.opts.Backoff.Base); !e.due.IsZero() && !e.asked && floor.Before(e.due) {
		e.due = floor
	}
}

func (t *twin) setAway(away bool) {
	if t.away && !away {
		for _, e := range t.entries {
			e.failures = 0
		}
		waiting := slices.Collect(maps.Values(t.entries))
		slices.SortFunc(waiting, func(a, b *twinEntry) int { return a.due.Compare(b.due) })
		for _, e := range waiting {
			t.endBackoff(e)
		}
	}
	t.away, t.trial = away, t.trial && away
	t.advance()
}

func (t *twin) retryNow() {
	t.trial = t.away
	var first *twinEntry
	for _, e := range t.entries {
		if e.isReady() {
			return
		}
		if !e.due.IsZero() && !e.asked && (first == nil || e.due.Before(first.due)) {
			first = e
		}
	}
	if first != nil {
		t.endBackoff(first)
		t.advance()
	}
}

// advance makes ready what is due.
func (t *twin) advance() {
	for key, e := range t.entries {
		if !e.due.IsZero() && !e.due.After(time.Now()) {
			e.due = time.Time{}
			t.stand(key, e)
		}
	}
}

// stand decides where a key waits that has become ready.
func (t *twin) stand(key syncer.Key, e *twinEntry) {
	e.apart, e.failed = nil, e.failures > 0
	if (e.pending.judged || e.pending.lane == Removal) && t.isApart(key, e) {
		e.apart = groupOf(key, e, e.pending.lane)
	}
}

func groupOf(key syncer.Key, e *twinEntry, lane Lane) *group {
	return &group{namespace: key.Namespace, removal: lane == Removal, late: e.late}
}

func (t *twin) isApart(key syncer.Key, e *twinEntry) bool {
	at, late := t.late[key.Namespace]
	return e.late || late && time.Since(at) < lateFor
}

// hasRoom reports whether a group may have one place more.
func (t *twin) hasRoom(g *group) bool {
	held, all, places := 0, t.busy(apartOther), max(2, t.opts.Workers/2)
	if g.removal {
		all, places = t.busy(apartRemoval), 2*t.opts.Workers
	}
	for _, e := range t.entries {
		if e.working != nil && e.apart != nil && *e.apart == *g {
			held++
		}
	}
	return held < places-all
}

// nextApart is the most urgent key in a bulkhead that has room.
func (t *twin) nextApart() (key syncer.Key, found bool) {
	for k, e := range t.entries {
		if e.isReady() && e.apart != nil && t.hasRoom(e.apart) && (!found || t.before(e, t.entries[key])) {
			key, found = k, true
		}
	}
	return key, found
}

// before reports whether a key is more urgent than another one.
func (t *twin) before(a, b *twinEntry) bool {
	if a.pending.lane != b.pending.lane {
		return a.pending.lane < b.pending.lane
	}
	if a.failed != b.failed {
		return b.failed
	}
	return a.pending.enqueued.Before(b.pending.enqueued)
}

// part moves keys from the heads of lines to bulkheads.
func (t *twin) part() {
	for _, lane := range lanes {
		for _, judged := range []bool{true, false} {
			for lane == Removal || judged {
				key, found := t.first(lane, judged)
				if !found || !t.isApart(key, t.entries[key]) {
					break
				}
				t.stand(key, t.entries[key])
			}
		}
	}
}

func (t *twin) stall(namespace string) {
	for key, e := range t.entries {
		if key.Namespace == namespace && e.working != nil && e.place != comparing && e.apart == nil {
			t.late[namespace], e.late = time.Now(), true
			t.given[e.place == place(Removal)]++
			e.apart = groupOf(key, e, Lane(e.place))
			e.place = (&bulkhead{group: *e.apart}).place()
		}
	}
}

func (t *twin) isLate(key syncer.Key) {
	if e := t.entries[key]; e.apart != nil && !e.late {
		t.late[key.Namespace], e.late = time.Now(), true
		e.apart = &group{namespace: key.Namespace, removal: e.apart.removal, late: true}
	}
}

func (t *twin) ended(key syncer.Key, took time.Duration, good bool) {
	e := t.entries[key]
	switch {
	case took >= stalledAfter:
		t.late[key.Namespace], e.late = time.Now(), true
	case good:
		e.late = false
		for other, e := range t.entries {
			if other.Namespace == key.Namespace && e.working != nil && e.apart != nil && e.apart.late {
				return
			}
		}
		delete(t.late, key.Namespace)
	}
}

func (t *twin) busy(p place) (n int) {
	for _, e := range t.entries {
		if e.working != nil && e.place == p {
			n++
		}
	}
	return n
}

// first is the key that has been dirty longest of those in a line.
func (t *twin) first(lane Lane, judged bool) (key syncer.Key, found bool) {
	for k, e := range t.entries {
		if e.isReady() && e.apart == nil && e.pending.lane == lane && e.pending.judged == judged &&
			(!found || t.before(e, t.entries[key])) {
			key, found = k, true
		}
	}
	return key, found
}

// newest is the key of a lane that has been dirty for the shortest time, where it is its turn.
func (t *twin) newest(lane Lane, mayWrite bool) (key syncer.Key, found bool) {
	removal := lane == Removal
	for k, e := range t.entries {
		if t.given[removal] > 0 && mayWrite && e.isReady() && e.apart == nil && !t.isApart(k, e) && e.pending.lane == lane && (removal || e.pending.judged) {
			if o := t.entries[key]; !found || e.failed == o.failed && o.pending.enqueued.Before(e.pending.enqueued) || !e.failed && o.failed {
				key, found = k, true
			}
		}
	}
	if !found {
		return key, false
	}
	t.given[removal]--
	t.eldest[removal] = !t.eldest[removal]
	return key, t.eldest[removal]
}

func (t *twin) room() bool {
	others := t.busy(place(Addition)) + t.busy(place(Bulk))
	return others == 0 || others < min(t.opts.Most, startWindow)
}

func (t *twin) bulkMay(comparing int) bool {
	fresh := comparing > 0
	for _, lane := range lanes {
		_, found := t.first(lane, false)
		fresh = fresh || found
	}
	return !fresh || time.Since(t.bulkAt) >= bulkShare
}

func (t *twin) turn(tt *turns, judged, bulk bool) (key syncer.Key, found bool) {
	var waits [laneCount]bool
	_, waits[Addition] = t.first(Addition, judged)
	if bulk {
		_, waits[Bulk] = t.first(Bulk, judged)
	}
	lane, ok := tt.next(waits)
	if !ok {
		return key, false
	}
	tt.took(lane, waits)
	return t.first(lane, judged)
}

func (t *twin) choose() (key syncer.Key, found bool) {
	mayWrite := !t.away || t.trial
	t.part()
	if t.busy(place(Removal)) < t.opts.Workers {
		if key, found = t.newest(Removal, mayWrite); found {
			return key, true
		}
		if key, found = t.first(Removal, true); found && mayWrite {
			return key, true
		}
		if key, found = t.first(Removal, false); found {
			return key, true
		}
	}
	if t.busy(comparing) < t.opts.Compare {
		if key, found = t.turn(&t.compare, false, true); found {
			return key, true
		}
	}
	if mayWrite && (t.room() || t.trial) {
		if key, found = t.newest(Addition, true); found {
			return key, true
		}
		if key, found = t.turn(&t.write, true, t.bulkMay(t.busy(comparing))); found {
			return key, true
		}
	}
	if mayWrite {
		return t.nextApart()
	}
	return key, false
}

func (t *twin) take() (key syncer.Key, found bool) {
	key, found = t.choose()
	if !found {
		return key, false
	}
	e := t.entries[key]
	e.working, e.pending, e.asked, e.news, e.lost = e.pending, nil, false, false, false
	e.trial = t.away && e.working.judged
	t.trial = t.trial && !e.trial
	to := place(e.working.lane)
	switch {
	case e.apart != nil:
		to = (&bulkhead{group: *e.apart}).place()
	case !e.working.judged && e.working.lane != Removal:
		to = comparing
	}
	t.move(e, to)
	return key, found
}

func (t *twin) move(e *twinEntry, to place) {
	if e.place = to; to == place(Bulk) {
		t.bulkAt = time.Now()
	}
}

// admit returns whether the key may be written; otherwise it is back in line.
func (t *twin) admit(key syncer.Key, lane Lane) bool {
	e := t.entries[key]
	_, before := t.first(lane, true)
	comparing := t.busy(comparing)
	if e.place == place(laneCount) {
		comparing--
	}
	writes := e.place == place(Addition) || e.place == place(Bulk)
	var admitted bool
	switch {
	case e.trial:
		admitted = true
	case t.away:
	case e.place == place(lane), e.apart != nil && e.apart.removal == (lane == Removal), lane != Removal && writes:
		admitted = true
	case t.isApart(key, e):
		g := groupOf(key, e, lane)
		admitted = t.hasRoom(g)
		for _, other := range t.entries {
			admitted = admitted && (!other.isReady() || other.apart == nil || *other.apart != *g)
		}
	case lane == Removal:
		admitted = t.busy(place(Removal)) < t.opts.Workers
	default:
		admitted = !before && (lane != Bulk || t.bulkMay(comparing)) && t.room()
	}
	if admitted {
		e.working.lane, e.working.judged = lane, true
		switch {
		case t.isApart(key, e):
			e.apart = groupOf(key, e, lane)
			t.move(e, (&bulkhead{group: *e.apart}).place())
		case e.apart == nil && e.place != place(lane), e.apart != nil && e.apart.removal != (lane == Removal):
			e.apart = nil
			t.move(e, place(lane))
		}
		return true
	}
	e.working.lane = lane
	fresh := e.pending != nil
	t.rejoin(e)
	e.pending.judged = !fresh
	t.stand(key, e)
	return false
}

func (t *twin) done(key syncer.Key) {
	e := t.entries[key]
	e.working, e.failures, e.apart = nil, 0, nil
	if e.pending == nil {
		delete(t.entries, key)
		return
	}
	t.stand(key, e)
}

func (t *twin) retry(key syncer.Key, asked bool, due time.Time) {
	e := t.entries[key]
	t.rejoin(e)
	e.apart = nil
	e.due, e.asked, e.failedAt = due, asked, time.Now()
	if !asked {
		e.failures++
	}
}

// rejoin puts what a worker held before what came meanwhile.
func (t *twin) rejoin(e *twinEntry) {
	w, p := e.working, e.pending
	e.working, e.pending = nil, w
	if p == nil {
		return
	}
	w.lane, w.judged = min(w.lane, p.lane), false
	w.dropped += p.dropped
	for _, c := range p.causes {
		w.keep(c)
	}
	for cluster, at := range p.oldest {
		w.stamp(cluster, at)
	}
}

func (t *twin) oldest() map[string]time.Time {
	all := newTwinBatch(0)
	for _, e := range t.entries {
		for _, b := range []*twinBatch{e.pending, e.working} {
			if b != nil && (e.failures < FailsAlone || t.away) {
				for cluster, at := range b.oldest {
					all.stamp(cluster, at)
				}
			}
		}
	}
	return all.oldest
}
