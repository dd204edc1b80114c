// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// flood keeps a lane of requests waiting until ctx is done, by so many senders whose
// requests take so long; the function returns how many were sent.
func flood(ctx context.Context, q *Queue, lane Lane, senders int, takes time.Duration) (sent func() int) {
	var mu sync.Mutex
	n := 0
	for i := range senders {
		go func() {
			for {
				slot, err := q.Acquire(ctx, Item{Key: key(fmt.Sprint(lane, i)), Lane: lane})
				if err != nil {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
				time.Sleep(takes)
				slot.End(Measured)
			}
		}()
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// Additions and bulk get on while removals come without end, and removals do not wait
// for them.
func TestRequestsOfEachLaneGetOn(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		removals := flood(ctx, q, Removal, 8, 2*time.Millisecond)
		additions := flood(ctx, q, Addition, 8, 2*time.Millisecond)
		bulks := flood(ctx, q, Bulk, 8, 2*time.Millisecond)
		time.Sleep(10 * time.Second)
		stop()
		time.Sleep(time.Second)
		if n := removals(); n < 8*10*490 {
			t.Errorf("%d removals were sent, want as if nothing else was", n)
		}
		if a, b := additions(), bulks(); a < 300 || b < 50 || a+b > 2000 {
			t.Errorf("%d additions and %d of bulk were sent beside removals, want a share", a, b)
		}
	})
}

// A limit on requests is handed out by lane: what comes last and is most urgent waits
// for one token, and what is least urgent gets a share.
func TestLimitOnRequestsIsHandedOutByLane(t *testing.T) {
	bubble(t, Options{QPS: 20, Burst: 1}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		flood(ctx, q, Bulk, 100, time.Millisecond)
		flood(ctx, q, Addition, 100, time.Millisecond)
		time.Sleep(10 * time.Second)
		for range 20 {
			start := time.Now()
			slot, err := q.Acquire(ctx, Item{Key: key("urgent"), Lane: Removal})
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited > 2*time.Second/20 {
				t.Errorf("a removal waited %v, want at most two tokens' time", waited)
			}
			slot.End(Measured)
			time.Sleep(time.Second)
		}
		stop()
		time.Sleep(time.Second)
	})
	bubble(t, Options{QPS: 20, Burst: 1}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		removals := flood(ctx, q, Removal, 50, time.Millisecond)
		additions := flood(ctx, q, Addition, 50, time.Millisecond)
		bulks := flood(ctx, q, Bulk, 50, time.Millisecond)
		time.Sleep(100 * time.Second)
		stop()
		time.Sleep(time.Second)
		r, a, b := removals(), additions(), bulks()
		if r < 1000 || a < 150 || b < 100 || r+a+b > 2001 {
			t.Errorf("of 2,000 tokens removals had %d, additions %d, bulk %d", r, a, b)
		}
	})
}

// A request that waits for bulk work goes out as a removal once a removal waits for it.
func TestRemovalHurriesTheRequestsOfItsKey(t *testing.T) {
	bubble(t, Options{QPS: 1, Burst: 1}, func(t *testing.T, q *Queue) {
		q.Add(key("web"), Bulk, bulk("a"))
		item := admitted(t, q, Bulk)
		ctx, stop := context.WithCancel(t.Context())
		flood(ctx, q, Addition, 10, time.Millisecond)
		synctest.Wait()
		sent := make(chan time.Time, 1)
		go func() {
			slot, err := q.Acquire(ctx, item)
			if err == nil {
				sent <- time.Now()
				slot.End(Measured)
			}
		}()
		synctest.Wait()
		start := time.Now()
		q.Add(item.Key, Removal, live("a"))
		if waited := (<-sent).Sub(start); waited > 2*time.Second {
			t.Errorf("it waited %v behind others", waited)
		}
		stop()
		time.Sleep(time.Second)
		q.Done(item.Key)
		q.Done(mustGet(t, q).Key)
	})
}

// A slow server is not asked for more because it is slow; one that swallows some
// requests goes on to be asked for the others.
func TestRequestsThatAreNotAnsweredGiveUpTheirPlace(t *testing.T) {
	serve := func(q *Queue, ctx context.Context, takes func(Item) time.Duration) (atOnce func() int) {
		var mu sync.Mutex
		flying, most := 0, 0
		work(ctx, q, func(item Item) {
			if !q.Admit(&item, Removal) {
				return
			}
			slot, err := q.Acquire(ctx, item)
			if err != nil {
				return
			}
			mu.Lock()
			flying++
			most = max(most, flying)
			mu.Unlock()
			time.Sleep(takes(item))
			mu.Lock()
			flying--
			mu.Unlock()
			slot.End(Measured)
			q.Done(item.Key)
		})
		return func() int {
			mu.Lock()
			defer mu.Unlock()
			return most
		}
	}
	bubble(t, Options{Workers: 8}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		for i := range 100 {
			q.Add(key(fmt.Sprint(i)), Removal, live("a"))
		}
		atOnce := serve(q, ctx, func(Item) time.Duration { return 3 * time.Second })
		time.Sleep(30 * time.Second)
		stop()
		time.Sleep(10 * time.Second)
		if most := atOnce(); most > 16 {
			t.Errorf("a slow server had %d requests at once, want at most twice the places", most)
		}
	})
	bubble(t, Options{Workers: 8}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		for i := range 12 { // more than there are places
			q.Add(key(fmt.Sprint("swallowed", i)), Removal, live("a"))
			time.Sleep(time.Nanosecond)
		}
		serve(q, ctx, func(item Item) time.Duration {
			if item.Key.Name[0] == 's' {
				return 10 * time.Second
			}
			return time.Millisecond
		})
		time.Sleep(time.Millisecond)
		q.Add(key("other"), Removal, live("a"))
		start := time.Now()
		time.Sleep(7 * time.Second)
		q.mu.Lock()
		_, waits := q.entries[key("other")]
		q.mu.Unlock()
		if waits {
			t.Errorf("the other key waits %v behind those that are not answered", time.Since(start))
		}
		stop()
		time.Sleep(10 * time.Second)
	})
}

// Whoever gives up waiting takes no slot.
func TestAcquireEndsWithItsContext(t *testing.T) {
	bubble(t, Options{QPS: 0.5, Burst: 1}, func(t *testing.T, q *Queue) {
		first, err := q.Acquire(t.Context(), Item{Lane: Removal})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := q.Acquire(ctx, Item{Lane: Removal}); err == nil {
			t.Error("a slot without a token")
		}
		first.End(Measured)
		first.End(Measured)
		if q.slots.waits() != [laneCount]bool{} || q.slots.held != [laneCount]int{} || len(q.slots.flying) != 0 {
			t.Errorf("slots are left: %+v", q.slots)
		}
	})
}
