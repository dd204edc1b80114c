// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// twin is the queue without any cleverness: one map, and every question is
// answered by looking at all of it.
type twin struct {
	live    time.Time
	away    bool
	opts    Options
	entries map[syncer.Key]*twinEntry
	seq     int
}

type twinEntry struct {
	pending, working *twinBatch
	due              time.Time // zero unless in backoff
	seq              int
	failures         int
	failedAt         time.Time
	asked            bool
	news             bool
	stalled          bool
}

type twinBatch struct {
	lane    Lane
	causes  []metrics.Cause
	dropped int
	oldest  map[string]time.Time
}

func newTwinBatch(lane Lane) *twinBatch {
	return &twinBatch{lane: lane, oldest: map[string]time.Time{}}
}

func (b *twinBatch) keep(c metrics.Cause) {
	b.causes = append(b.causes, c)
	if len(b.causes) <= 8 || c.Live && len(b.causes) <= 32 {
		return
	}
	b.dropped++
	out := len(b.causes) - 1
	if c.Live {
		if i := slices.IndexFunc(b.causes, func(c metrics.Cause) bool { return !c.Live }); i >= 0 {
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

func (t *twin) ready(e *twinEntry) { t.seq++; e.seq, e.due = t.seq, time.Time{} }

func (e *twinEntry) isReady() bool {
	return e.pending != nil && e.working == nil && e.due.IsZero()
}

func (t *twin) add(key syncer.Key, lane Lane, c metrics.Cause) {
	e, known := t.entries[key]
	if !known {
		e = &twinEntry{}
		t.entries[key] = e
	}
	wasReady := e.isReady()
	before := lane
	if e.pending == nil {
		e.pending = newTwinBatch(lane)
	} else {
		before = e.pending.lane
	}
	e.pending.lane = min(e.pending.lane, lane)
	e.pending.keep(c)
	e.pending.stamp(c.Cluster, c.Arrival)
	switch {
	case !known, wasReady && e.pending.lane < before:
		t.ready(e)
	case e.working != nil:
		e.news = e.news || tells(lane, c)
	case tells(lane, c) && !t.away:
		t.hasten(e)
	}
	t.advance()
}

// tells reports whether a cause is worth an attempt before its time.
func tells(lane Lane, c metrics.Cause) bool {
	return c.Live && lane < Bulk || lane == Removal && c.Cluster != ""
}

func (t *twin) hasten(e *twinEntry) {
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
			t.hasten(e)
			if !e.due.IsZero() && !e.due.After(time.Now()) {
				t.ready(e)
			}
		}
	}
	t.away = away
}

func (t *twin) rouse() {
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
		t.hasten(first)
		t.advance()
	}
}

// advance makes ready what is due, in order.
func (t *twin) advance() {
	for {
		var first *twinEntry
		for _, e := range t.entries {
			if !e.due.IsZero() && !e.due.After(time.Now()) && (first == nil || e.due.Before(first.due)) {
				first = e
			}
		}
		if first == nil {
			return
		}
		t.ready(first)
	}
}

func (t *twin) busy(lane Lane) (n int) {
	for _, e := range t.entries {
		if e.working != nil && !e.stalled && e.working.lane == lane {
			n++
		}
	}
	return n
}

func (t *twin) stall(key syncer.Key) bool {
	stalled := 0
	for _, e := range t.entries {
		if e.stalled {
			stalled++
		}
	}
	e := t.entries[key]
	if e.stalled || stalled >= t.opts.Stalls {
		return false
	}
	t.ends(e)
	e.stalled = true
	return true
}

// ends notes that a key leaves work.
func (t *twin) ends(e *twinEntry) {
	if !e.stalled {
		t.notice(e.working.lane)
	}
	e.stalled = false
}

func (t *twin) take() (key syncer.Key, found bool) {
	bulk, shared := t.busy(Bulk), t.busy(Bulk)+t.busy(Addition)
	for k, e := range t.entries {
		if !e.isReady() ||
			e.pending.lane != Removal && shared >= t.opts.Workers-t.opts.Reserve ||
			e.pending.lane == Bulk && bulk >= t.bulkMost() {
			continue
		}
		if o := t.entries[key]; !found || cmp.Or(cmp.Compare(e.pending.lane, o.pending.lane), cmp.Compare(e.seq, o.seq)) < 0 {
			key, found = k, true
		}
	}
	if found {
		e := t.entries[key]
		e.working, e.pending, e.asked, e.news = e.pending, nil, false, false
		t.notice(e.working.lane)
	}
	return key, found
}

// notice remembers when a live change was last taken or ended.
func (t *twin) notice(lane Lane) {
	if lane != Bulk {
		t.live = time.Now()
	}
}

func (t *twin) bulkMost() int {
	if t.busy(Removal)+t.busy(Addition) > 0 || time.Since(t.live) < calmAfter {
		return t.opts.BulkBeside
	}
	return t.opts.BulkMax
}

func (t *twin) done(key syncer.Key) {
	e := t.entries[key]
	t.ends(e)
	e.working, e.failures = nil, 0
	if e.pending == nil {
		delete(t.entries, key)
		return
	}
	t.ready(e)
}

func (t *twin) retry(key syncer.Key, asked bool, due time.Time) {
	e := t.entries[key]
	w, p := e.working, e.pending
	t.ends(e)
	e.working, e.pending, e.due, e.asked, e.failedAt = nil, w, due, asked, time.Now()
	if !asked {
		e.failures++
	}
	if p == nil {
		return
	}
	w.lane = min(w.lane, p.lane)
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
			if b != nil {
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
	q := New(Options{Workers: 2 + rng.IntN(5), Stalls: 1 + rng.IntN(3), Backoff: Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second}})
	tw := &twin{opts: q.opts, entries: map[syncer.Key]*twinEntry{}}
	var held []Item
	for step := range steps {
		// No two events at one instant: which of two keys due together comes first
		// is nobody's promise.
		time.Sleep(time.Duration(1 + rng.IntN(1000)))
		synctest.Wait()
		tw.advance()
		switch op := rng.IntN(13); {
		case op < 4:
			key := syncer.Key{Namespace: "ns", Name: fmt.Sprint(rng.IntN(7))}
			lane := lanes[rng.IntN(laneCount)]
			c := metrics.Cause{
				Cluster: []string{"", "c1", "c2"}[rng.IntN(3)], Name: fmt.Sprint(step), Live: rng.IntN(2) == 0,
				Arrival: time.Now().Add(-time.Duration(rng.IntN(1000)) * time.Millisecond),
			}
			q.Add(key, lane, c)
			tw.add(key, lane, c)
		case op < 5 && len(held) > 0:
			item := held[rng.IntN(len(held))]
			if got, want := q.Stall(item), tw.stall(item.Key); got != want {
				t.Fatalf("step %d: %v stalls: %v, want %v", step, item.Key, got, want)
			}
		case op < 7:
			held = append(held, takeBoth(t, q, tw)...)
		case op < 9 && len(held) > 0:
			i := rng.IntN(len(held))
			q.Done(held[i].Key)
			tw.done(held[i].Key)
			held = slices.Delete(held, i, i+1)
		case op < 10 && len(held) > 0:
			i := rng.IntN(len(held))
			after := time.Duration(rng.IntN(2)*rng.IntN(4)) * time.Second
			retryBoth(t, q, tw, held[i], after)
			held = slices.Delete(held, i, i+1)
		case op < 11:
			away := rng.IntN(2) == 0
			q.SetAway(away)
			tw.setAway(away)
		case op < 12:
			q.Rouse()
			tw.rouse()
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
	e := q.lockedTake()
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
	first := slices.MinFunc(slices.Collect(maps.Values(b.oldest)), time.Time.Compare)
	if item.Lane != b.lane || !slices.Equal(item.Causes, b.causes) || item.Dropped != b.dropped ||
		!item.FirstArrival.Equal(first) || item.Attempt != tw.entries[want].failures {
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
	tw.retry(item.Key, after > 0, due)
	least := after
	if after == 0 {
		least = min(q.opts.Backoff.Max, q.opts.Backoff.Base<<(tw.entries[item.Key].failures-1))
	}
	if tw.entries[item.Key].news && after == 0 && !tw.away {
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
