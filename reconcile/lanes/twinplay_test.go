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

// play runs a random history against the queue and its twin.
func play(t *testing.T, seed uint64, steps int) {
	rng := dice.From(seed, 1)
	q := New(Options{Workers: 1 + rng.IntN(3), Most: 1 + rng.IntN(6), Compare: 1 + rng.IntN(2), Backoff: Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second}})
	tw := &twin{opts: q.opts, entries: map[syncer.Key]*twinEntry{}, late: map[string]time.Time{}, given: map[bool]int{}, eldest: map[bool]bool{}}
	var held []Item
	for step := range steps {
		// No two events at one instant: which of two keys due together comes first
		// is nobody's promise.
		time.Sleep(time.Duration(1 + rng.IntN(1000)))
		synctest.Wait()
		tw.advance()
		switch op := rng.IntN(15); {
		case op < 4:
			n := rng.IntN(9)
			key := syncer.Key{Namespace: fmt.Sprint("ns", n%3), Name: fmt.Sprint(n)}
			lane := lanes[rng.IntN(laneCount)]
			c := record.Cause{
				Cluster: []string{"", "c1", "c2"}[rng.IntN(3)], Name: fmt.Sprint(step), Live: rng.IntN(2) == 0,
				Arrival: time.Now().Add(-time.Duration(rng.IntN(1000)) * time.Millisecond),
			}
			q.Add(key, lane, c)
			tw.add(key, lane, c)
		case op < 5 && len(held) > 0:
			item := held[rng.IntN(len(held))]
			q.stall(item.Key.Namespace)
			tw.stall(item.Key.Namespace)
			q.isLate(item)
			tw.isLate(item.Key)
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
		case op < 14 && len(held) > 0:
			item, took, good := held[rng.IntN(len(held))], time.Duration(rng.IntN(2))*stalledAfter, rng.IntN(2) == 0
			q.ended(item, took, good)
			tw.ended(item.Key, took, good)
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
