// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/dice"
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
	for _, e := range t.entries {
		if !e.due.IsZero() && !e.due.After(time.Now()) {
			e.due = time.Time{}
		}
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
		if e.isReady() && e.pending.lane == lane && e.pending.judged == judged &&
			(!found || e.pending.enqueued.Before(t.entries[key].pending.enqueued)) {
			key, found = k, true
		}
	}
	return key, found
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
	if t.busy(place(Removal)) < t.opts.Workers {
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
		return t.turn(&t.write, true, t.bulkMay(t.busy(comparing)))
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
	if !e.working.judged && e.working.lane != Removal {
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
	case e.trial || e.place == nowhere:
		admitted = true
	case t.away:
	case e.place == place(lane):
		admitted = true
	case lane == Removal:
		admitted = t.busy(place(Removal)) < t.opts.Workers
	case writes:
		admitted = true
	default:
		admitted = !before && (lane != Bulk || t.bulkMay(comparing)) && t.room()
	}
	if admitted {
		e.working.lane, e.working.judged = lane, true
		if e.place != nowhere && e.place != place(lane) {
			t.move(e, place(lane))
		}
		return true
	}
	e.working.lane = lane
	fresh := e.pending != nil
	t.rejoin(e)
	e.pending.judged = !fresh
	return false
}

func (t *twin) done(key syncer.Key) {
	e := t.entries[key]
	e.working, e.failures = nil, 0
	if e.pending == nil {
		delete(t.entries, key)
	}
}

func (t *twin) retry(key syncer.Key, asked bool, due time.Time) {
	e := t.entries[key]
	t.rejoin(e)
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

// play runs a random history against the queue and its twin.
func play(t *testing.T, seed uint64, steps int) {
	rng := dice.From(seed, 1)
	q := New(Options{Workers: 1 + rng.IntN(3), Most: 1 + rng.IntN(6), Compare: 1 + rng.IntN(2), Backoff: Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second}})
	tw := &twin{opts: q.opts, entries: map[syncer.Key]*twinEntry{}}
	var held []Item
	for step := range steps {
		// No two events at one instant: which of two keys due together comes first
		// is nobody's promise.
		time.Sleep(time.Duration(1 + rng.IntN(1000)))
		synctest.Wait()
		tw.advance()
		switch op := rng.IntN(14); {
		case op < 4:
			key := syncer.Key{Namespace: "ns", Name: fmt.Sprint(rng.IntN(7))}
			lane := lanes[rng.IntN(laneCount)]
			c := record.Cause{
				Cluster: []string{"", "c1", "c2"}[rng.IntN(3)], Name: fmt.Sprint(step), Live: rng.IntN(2) == 0,
				Arrival: time.Now().Add(-time.Duration(rng.IntN(1000)) * time.Millisecond),
			}
			q.Add(key, lane, c)
			tw.add(key, lane, c)
		case op < 5 && len(held) > 0:
			item := held[rng.IntN(len(held))]
			q.stall(item)
			tw.entries[item.Key].place = nowhere
		case op < 6 && len(held) > 0:
			i, lane := rng.IntN(len(held)), lanes[rng.IntN(laneCount)]
			got, want := q.Admit(&held[i], lane), tw.admit(held[i].Key, lane)
			if got != want {
				t.Fatalf("step %d: %v is admitted: %v, want %v", step, held[i].Key, got, want)
			}
			if !got {
				held = slices.Delete(held, i, i+1)
			}
		case op < 8:
			held = append(held, takeBoth(t, q, tw)...)
		case op < 10 && len(held) > 0:
			i := rng.IntN(len(held))
			q.Done(held[i].Key)
			tw.done(held[i].Key)
			held = slices.Delete(held, i, i+1)
		case op < 11 && len(held) > 0:
			i := rng.IntN(len(held))
			after := time.Duration(rng.IntN(2)*rng.IntN(4)) * time.Second
			retryBoth(t, q, tw, held[i], after)
			held = slices.Delete(held, i, i+1)
		case op < 12:
			away := rng.IntN(2) == 0
			q.SetAway(away)
			tw.setAway(away)
		case op < 13:
			q.RetryNow()
			tw.retryNow()
		default:
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			synctest.Wait()
			tw.advance()
		}
		compare(t, step, q, tw)
	}
	q.ShutDown()
}

// takeBoth takes the next key from both, if there is one.
func takeBoth(t *testing.T, q *Queue, tw *twin) []Item {
	t.Helper()
	want, found := tw.take()
	q.mu.Lock()
	e := q.lockedNext()
	if e == nil {
		q.mu.Unlock()
		if found {
			t.Fatalf("nothing to take, want %v", want)
		}
		return nil
	}
	item := q.lockedHand(e)
	q.mu.Unlock()
	if !found || item.Key != want {
		t.Fatalf("took %v, want %v (found %v)", item.Key, want, found)
	}
	b := tw.entries[want].working
	if item.Lane != b.lane || !slices.Equal(item.Causes, b.causes) || item.Dropped != b.dropped ||
		item.Trial != tw.entries[want].trial || item.Attempt != tw.entries[want].failures {
		t.Fatalf("took %+v\nwant %+v", item, b)
	}
	return []Item{item}
}

func retryBoth(t *testing.T, q *Queue, tw *twin, item Item, after time.Duration) {
	t.Helper()
	q.Retry(item, after)
	q.mu.Lock()
	due := q.entries[item.Key].due.at
	q.mu.Unlock()
	lost := tw.entries[item.Key].lost && !tw.away
	tw.retry(item.Key, after > 0, due)
	tw.entries[item.Key].asked = after > 0 && !lost
	least := after
	if after == 0 {
		least = min(q.opts.Backoff.Max, q.opts.Backoff.Base<<(tw.entries[item.Key].failures-1))
	}
	if tw.entries[item.Key].news && after == 0 && !tw.away || lost {
		least = q.opts.Backoff.Base
	}
	if d := time.Until(due); d < least || d > least+least/5 {
		t.Fatalf("failure %d waits %v, want %v and up to a fifth more", tw.entries[item.Key].failures, d, least)
	}
}

func compare(t *testing.T, step int, q *Queue, tw *twin) {
	t.Helper()
	if err := q.check(); err != nil {
		t.Fatalf("step %d: %v", step, err)
	}
	if got, want := q.OldestArrivals(), tw.oldest(); !maps.EqualFunc(got, want, time.Time.Equal) {
		t.Fatalf("step %d: oldest arrivals %v, want %v", step, got, want)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.entries) != len(tw.entries) {
		t.Fatalf("step %d: %d keys, want %d", step, len(q.entries), len(tw.entries))
	}
	for key, e := range tw.entries {
		due := q.entries[key].due
		if (due.index != absent) != !e.due.IsZero() || !e.due.IsZero() && !due.at.Equal(e.due) {
			t.Fatalf("step %d: %v is due %+v, want %v", step, key, due, e.due)
		}
	}
}

func TestQueueEqualsItsTwin(t *testing.T) {
	for seed := range dice.Seeds(t, 50) {
		synctest.Test(t, func(t *testing.T) { play(t, seed, 400) })
	}
}

func FuzzQueueEqualsItsTwin(f *testing.F) {
	f.Add(uint64(1), uint16(200))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		synctest.Test(t, func(t *testing.T) { play(t, seed, int(steps%2000)) })
	})
}
