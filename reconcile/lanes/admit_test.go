// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Whatever the news was, all of it is compared before bulk work is written, and what
// takes something away goes first.
func TestBulkIsWrittenAfterAllNewsIsCompared(t *testing.T) {
	bubble(t, Options{Compare: 1}, func(t *testing.T, q *Queue) {
		const keys = 1000
		for i := range keys {
			q.Add(key(fmt.Sprint(i)), Bulk, bulk("a"))
			time.Sleep(time.Nanosecond)
		}
		written, removal := 0, 0
		for compared := 0; compared < keys; {
			item := mustGet(t, q)
			if item.Lane == Removal { // known already
				t.Fatalf("%v was not written at once", item.Key)
			}
			compared++
			lane := Bulk
			if item.Key == key("700") {
				lane = Removal
			}
			if !q.Admit(&item, lane) {
				continue
			}
			written++
			if lane == Removal {
				removal = written
			} else if compared < keys && written > 1 {
				t.Fatalf("%v was written as number %d after %d were compared", item.Key, written, compared)
			}
			q.Done(item.Key)
		}
		if removal == 0 || removal > 2 {
			t.Errorf("the removal was written as number %d", removal)
		}
	})
}

// An edit that only adds something is no removal, whatever it looked like.
func TestLaneFollowsTheDifference(t *testing.T) {
	bubble(t, Options{Workers: 2, Most: 2}, func(t *testing.T, q *Queue) {
		for i := range 1000 {
			q.Add(key(fmt.Sprint("port", i)), Removal, live("a"))
			time.Sleep(time.Nanosecond)
		}
		var held []Item
		for range 500 {
			item := mustGet(t, q)
			if q.Admit(&item, Addition) {
				held = append(held, item)
			}
		}
		if len(held) != 2 {
			t.Errorf("%d are written at once, want as many as may be", len(held))
		}
		q.Add(key("pod"), Removal, live("a"))
		for n := 0; ; n++ { // the rest is compared before: that is quick
			item := mustGet(t, q)
			if item.Key == key("pod") {
				if !q.Admit(&item, Removal) {
					t.Error("a removal finds no room")
				}
				break
			}
			if q.Admit(&item, Addition) || n > 500 {
				t.Fatalf("%v is written before the removal", item.Key)
			}
		}
	})
}

// What others are written for waits in its lane, as old as it is and with its causes; news
// has it compared again.
func TestKeyWithoutRoomWaitsInItsLane(t *testing.T) {
	bubble(t, Options{Most: 1}, func(t *testing.T, q *Queue) {
		q.Add(key("first"), Addition, live("a"))
		first := admitted(t, q, Addition)
		q.Add(key("web"), Addition, live("a"))
		q.Add(key("web"), Bulk, bulk("b"))
		item := mustGet(t, q)
		if q.Admit(&item, Addition) {
			t.Error("two are written where one may be")
		}
		noneFor(t, q, time.Minute)
		if s := q.States()[Addition]; s.Depth != 1 || s.Working != 1 || s.Oldest != time.Minute {
			t.Errorf("the lane is %+v", s)
		}
		q.Add(key("web"), Addition, live("c"))
		item = mustGet(t, q) // it is compared again
		if len(item.Causes) != 3 || item.Attempt != 0 {
			t.Errorf("took %+v", item)
		}
		q.Add(key("web"), Addition, live("d"))
		if q.Admit(&item, Addition) {
			t.Error("two are written where one may be")
		}
		item = mustGet(t, q) // there was news while it was compared
		if len(item.Causes) != 4 || q.Admit(&item, Addition) {
			t.Errorf("took %+v", item)
		}
		q.Done(first.Key)
		item = mustGet(t, q)
		if item.Key != key("web") || !q.Admit(&item, Addition) {
			t.Errorf("took %+v", item)
		}
	})
}

// Additions and bulk share what there is beside removals.
func TestAdditionsLeaveBulkAShare(t *testing.T) {
	bubble(t, Options{Most: 1}, func(t *testing.T, q *Queue) {
		q.Add(key("blocks"), Addition, live("a"))
		blocks := admitted(t, q, Addition)
		for i := range 100 {
			q.Add(key(fmt.Sprint("a", i)), Addition, live("a"))
			q.Add(key(fmt.Sprint("b", i)), Bulk, bulk("a"))
		}
		for range 200 {
			if item := mustGet(t, q); item.Key == blocks.Key || q.Admit(&item, item.Lane) {
				t.Fatalf("%v may be written", item.Key)
			}
		}
		q.Done(blocks.Key)
		var had [laneCount]int
		for range 90 {
			item := mustGet(t, q)
			if !q.Admit(&item, item.Lane) {
				t.Fatalf("%v may not be written", item.Key)
			}
			had[item.Lane]++
			q.Done(item.Key)
		}
		if had[Bulk] < 8 || had[Addition] < 70 {
			t.Errorf("additions had %d turns, bulk %d", had[Addition], had[Bulk])
		}
	})
}

// Removals that come faster than they can be written leave additions and bulk their share.
func TestAdditionsGetOnAmongRemovalsWithoutEnd(t *testing.T) {
	bubble(t, Options{Workers: 4}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		written := map[Lane]int{}
		work(ctx, q, func(item Item) {
			if !q.Admit(&item, item.Lane) {
				return
			}
			if slot, err := q.Acquire(ctx, item); err == nil {
				time.Sleep(2 * time.Millisecond)
				slot.End(Measured)
				mu.Lock()
				written[item.Lane]++
				mu.Unlock()
			}
			q.Done(item.Key)
		})
		for i := range 200 {
			q.Add(key(fmt.Sprint("added", i)), Addition, live("a"))
			q.Add(key(fmt.Sprint("bulk", i)), Bulk, bulk("a"))
		}
		const seconds = 10
		for i := range 5000 * seconds { // 4 at a time could write 2,000 a second
			q.Add(key(fmt.Sprint("removed", i)), Removal, live("a"))
			if i%5 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		mu.Lock()
		if backlog := q.States()[Removal].Depth; backlog == 0 || written[Addition] < 200 || written[Bulk] < 50 {
			t.Errorf("written are %v, %d removals wait", written, backlog)
		}
		mu.Unlock()
		stop()
		time.Sleep(time.Second) // the workers end
	})
}

// What comes while a key is with a worker can be made the worker's.
func TestRefreshTakesInWhatCameMeanwhile(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Add(key("web"), Addition, live("a"))
		item := admitted(t, q, Addition)
		if q.Refresh(&item) {
			t.Error("something has come")
		}
		time.Sleep(time.Second)
		q.Add(key("web"), Removal, live("b"))
		time.Sleep(time.Second)
		if !q.Refresh(&item) || len(item.Causes) != 2 || item.Lane != Addition {
			t.Errorf("the item is %+v", item)
		}
		if s := q.States()[Removal]; s.Depth != 0 || s.Working != 1 || s.Oldest != 2*time.Second {
			t.Errorf("the lane is %+v", s)
		}
		if at, ok := q.OldestArrivals()["b"]; !ok || time.Since(at) != time.Second {
			t.Errorf("the oldest of b came at %v", at)
		}
		q.Done(item.Key)
		if len(q.OldestArrivals()) != 0 {
			t.Error("something still waits")
		}
		noneFor(t, q, time.Minute)
	})
}
