// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

func key(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }

func live(cluster string) record.Cause {
	return record.Cause{Cluster: cluster, Kind: "Pod", Event: "modified", Live: true}
}

func bulk(cluster string) record.Cause {
	return record.Cause{Cluster: cluster, Kind: "Service", Event: "relist"}
}

// bubble runs a test in virtual time and checks the queue's laws at its end.
func bubble(t *testing.T, opts Options, test func(t *testing.T, q *Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opts.Compare = cmp.Or(opts.Compare, 8)
		q := New(opts)
		test(t, q)
		synctest.Wait()
		if err := q.check(); err != nil {
			t.Error(err)
		}
		q.ShutDown()
	})
}

// work has as many workers as a queue has take what it gives, until ctx ends.
func work(ctx context.Context, q *Queue, do func(Item)) {
	for range q.Workers() {
		go func() {
			for item, ok := q.Get(ctx); ok; item, ok = q.Get(ctx) {
				do(item)
			}
		}()
	}
}

func mustGet(t *testing.T, q *Queue) Item {
	t.Helper()
	item, ok := q.Get(t.Context())
	if !ok {
		t.Fatal("the queue is shut")
	}
	return item
}

// admitted takes the next key and has it admitted to a lane.
func admitted(t *testing.T, q *Queue, lane Lane) Item {
	t.Helper()
	for {
		item := mustGet(t, q)
		if q.Admit(&item, lane) {
			return item
		}
	}
}

// noneFor asserts that for a span of virtual time no key can be taken.
func noneFor(t *testing.T, q *Queue, span time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	if item, ok := q.Get(ctx); ok {
		t.Fatalf("took %v %s early", item.Key, item.Lane)
	}
}

func TestRemovalsOvertakeAdditionsOvertakeBulk(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		add := func(name string, lane Lane, cause record.Cause) {
			q.Add(key(name), lane, cause)
			time.Sleep(time.Millisecond)
		}
		add("b1", Bulk, bulk("a"))
		add("a1", Addition, live("a"))
		add("b2", Bulk, bulk("a"))
		add("r1", Removal, live("a"))
		add("a2", Addition, live("a"))
		add("r2", Removal, live("a"))
		add("b2", Removal, live("a")) // raised, and dirty before the others
		var got []string
		for range 6 {
			item := mustGet(t, q)
			got = append(got, item.Key.Name)
			q.Done(item.Key)
		}
		if want := []string{"b2", "r1", "r2", "a1", "a2", "b1"}; !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
	})
}

func TestEventsForOneKeyMerge(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		start := time.Now()
		late := live("a")
		late.Arrival = start.Add(-time.Second)
		q.Add(key("web"), Bulk, bulk("b"))
		for range maxCauses + 2 {
			q.Add(key("web"), Addition, late)
		}
		item := mustGet(t, q)
		if item.Lane != Addition || len(item.Causes) != maxCauses || item.Dropped != 3 {
			t.Errorf("took %+v", item)
		}
		if slices.ContainsFunc(item.Causes, func(c record.Cause) bool { return !c.Live }) {
			t.Error("a bulk cause was kept although live ones were dropped")
		}
		q.Done(item.Key)
	})
}

func TestKeyIsNeverWithTwoWorkers(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Add(key("web"), Addition, live("a"))
		first := mustGet(t, q)
		q.Add(key("web"), Removal, live("b"))
		noneFor(t, q, time.Hour)
		q.Done(first.Key)
		second := mustGet(t, q)
		if second.Lane != Removal || len(second.Causes) != 1 || second.Causes[0].Cluster != "b" {
			t.Errorf("took %+v", second)
		}
		q.Done(second.Key)
		noneFor(t, q, time.Hour)
	})
}

func TestOldestArrivalSpansTheWholeLife(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		start := time.Now()
		oldest := func(want time.Duration) {
			t.Helper()
			if at, ok := q.OldestArrivals()["a"]; !ok || at.Sub(start) != want {
				t.Errorf("oldest arrival %v (%v), want %v", at.Sub(start), ok, want)
			}
		}
		q.Add(key("web"), Addition, live("a"))
		time.Sleep(time.Second)
		q.Add(key("web"), Removal, live("a"))
		oldest(0)
		item := mustGet(t, q)
		oldest(0)
		q.Add(key("web"), Addition, live("a"))
		q.Retry(item, 0)
		oldest(0)
		item = mustGet(t, q)
		time.Sleep(time.Second)
		q.Add(key("web"), Addition, live("a"))
		began := time.Since(start)
		q.Done(item.Key)
		oldest(began)
		q.Done(mustGet(t, q).Key)
		if left := q.OldestArrivals(); len(left) > 0 {
			t.Errorf("all is written, yet %v is left", left)
		}
	})
}

func TestShutDownReleasesWorkersAndDropsWhatWaits(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		var workers sync.WaitGroup
		q.Add(key("held"), Removal, live("a"))
		held := mustGet(t, q)
		for range 5 {
			workers.Go(func() {
				if _, ok := q.Get(t.Context()); ok {
					t.Error("took a key from a shut queue")
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		q.ShutDown()
		workers.Wait()
		q.Add(key("late"), Removal, live("a"))
		q.Retry(held, 0)
		if _, ok := q.Get(t.Context()); ok || len(q.entries) != 0 {
			t.Errorf("keys left: %v", q.entries)
		}
	})
}

func TestGetEndsWithItsContext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q.Add(key("web"), Removal, live("a"))
		if _, ok := q.Get(ctx); ok {
			t.Error("took a key after the context was done")
		}
	})
}

func TestEndingWhatNobodyHoldsIsIgnored(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Done(key("web"))
		q.Retry(Item{Key: key("web")}, 0)
		q.Add(key("web"), Removal, live("a"))
		q.Done(key("web"))
		q.Retry(Item{Key: key("web")}, 0)
		if item := mustGet(t, q); item.Key != key("web") {
			t.Errorf("took %v", item.Key)
		}
	})
}

type counts struct {
	mu                    sync.Mutex
	added, retried, taken [laneCount]int
}

func (c *counts) Added(l Lane)                    { c.mu.Lock(); c.added[l]++; c.mu.Unlock() }
func (c *counts) Retried(l Lane, _ time.Duration) { c.mu.Lock(); c.retried[l]++; c.mu.Unlock() }
func (c *counts) Taken(l Lane, _ time.Duration)   { c.mu.Lock(); c.taken[l]++; c.mu.Unlock() }

// Many producers and workers: every event is seen by an attempt that began
// after it, no key is in two hands, and each failure is made good.
func TestContention(t *testing.T) {
	const keys, producers, events = 40, 8, 400
	c := new(counts)
	q := New(Options{Workers: 8, Observer: c, Backoff: Backoff{Base: time.Microsecond, Max: time.Millisecond}})
	var mu sync.Mutex
	holding, wanted, seen := map[syncer.Key]bool{}, map[syncer.Key]int{}, map[syncer.Key]int{}

	var workers, makers sync.WaitGroup
	settled := make(chan struct{}, 1)
	for n := range q.Workers() {
		workers.Go(func() {
			for i := 0; ; i++ {
				item, ok := q.Get(t.Context())
				if !ok {
					return
				}
				mu.Lock()
				if holding[item.Key] {
					t.Errorf("%v is with two workers", item.Key)
				}
				holding[item.Key] = true
				now := wanted[item.Key]
				mu.Unlock()
				fail := (i+n)%5 == 0
				mu.Lock()
				holding[item.Key] = false
				if !fail {
					seen[item.Key] = now
				}
				mu.Unlock()
				if fail {
					q.Retry(item, 0)
				} else {
					q.Done(item.Key)
				}
				select {
				case settled <- struct{}{}:
				default:
				}
			}
		})
	}
	for p := range producers {
		makers.Go(func() {
			for i := range events {
				k := key(fmt.Sprint((i*7 + p) % keys))
				mu.Lock()
				wanted[k]++
				mu.Unlock()
				q.Add(k, lanes[(i+p)%laneCount], live("a"))
			}
		})
	}
	makers.Wait()
	for {
		q.mu.Lock()
		left := len(q.entries)
		q.mu.Unlock()
		if left == 0 {
			break
		}
		<-settled
	}
	q.ShutDown()
	workers.Wait()
	if err := q.check(); err != nil {
		t.Error(err)
	}
	for k, want := range wanted {
		if seen[k] != want {
			t.Errorf("%v: the last success saw event %d of %d", k, seen[k], want)
		}
	}
	if total := c.added[0] + c.added[1] + c.added[2]; total != producers*events {
		t.Errorf("observer saw %d events, want %d", total, producers*events)
	}
}
