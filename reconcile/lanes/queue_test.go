// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestRemovalsAreComparedFirstAndMembersTakeTurns(t *testing.T) {
	q := NewQueue("", nil)
	add := func(name, member string, lane Lane) { q.Add(key("shop", name), lane, of(member)) }
	for _, name := range []string{"b1", "b2", "b3"} {
		add(name, "a", plan.Bulk)
	}
	add("b4", "b", plan.Bulk)
	add("n1", "a", plan.Addition)
	add("r1", "a", plan.Removal)
	add("r2", "a", plan.Removal)
	add("r3", "b", plan.Removal)
	add("b3", "b", plan.Removal) // it has become more urgent
	var order []string
	for q.Len() > 0 {
		w, _ := q.Get()
		order = append(order, w.Key.Name)
		q.Done(w)
	}
	// The addition comes fourth, as its share is.
	if got, want := strings.Join(order, " "), "r1 r3 r2 n1 b3 b1 b4 b2"; got != want {
		t.Errorf("compared %s, want %s", got, want)
	}
}

func TestNewsIsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, k, start := NewQueue("", nil), key("shop", "web"), time.Now()
		at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
		q.Add(k, plan.Bulk, record.Cause{Name: "list", Cluster: "a", Arrival: at(1)})
		q.Add(k, plan.Addition, record.Cause{Name: "late", Cluster: "a", Arrival: at(4), Live: true})
		q.Add(k, plan.Removal, record.Cause{Name: "early", Cluster: "b", Arrival: at(3), Live: true})
		w, _ := q.Get()
		if w.Cause.Name != "early" || w.Causes != 3 || w.Lane != plan.Removal {
			t.Errorf("the work is %+v", w)
		}
		oldest := func(a, b int) {
			t.Helper()
			if got := q.Oldest(nil); !got["a"].Equal(at(a)) || !got["b"].Equal(at(b)) {
				t.Errorf("the oldest are %v", got)
			}
		}
		oldest(1, 3)
		q.Add(k, plan.Bulk, record.Cause{Name: "new", Cluster: "a", Arrival: at(5)})
		q.Return(w) // it was interrupted: nothing of it is lost
		oldest(1, 3)
		w, _ = q.Get()
		if w.Cause.Name != "early" || w.Causes != 4 || w.Lane != plan.Removal {
			t.Errorf("the work comes back as %+v", w)
		}
		if got := q.Oldest(map[string]time.Time{"a": at(0), "c": at(9)}); !got["a"].Equal(at(0)) || !got["c"].Equal(at(9)) {
			t.Errorf("open questions do not count: %v", got)
		}
		d := NewDispatch(q)
		d.Replace(w, nil, false)
		q.Done(w)
		if got := q.Oldest(nil); len(got) != 0 || q.Len() != 0 {
			t.Errorf("left are %v", got)
		}
	})
}

// Many goroutines add, compare and interrupt: a key is with one worker, no cause is lost, and
// the queue ends.
func TestQueueUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const adders, each = 4, 500
		var mu sync.Mutex
		var adding, working sync.WaitGroup
		busy, causes := map[syncer.Key]bool{}, 0
		q := NewQueue("", nil)
		d := NewDispatch(q)
		for i := range 3 {
			rng := dice.From(dice.Seed(t), uint64(i))
			working.Go(func() {
				for w, ok := q.Get(); ok; w, ok = q.Get() {
					mu.Lock()
					if busy[w.Key] {
						t.Errorf("%v is with two workers", w.Key)
					}
					busy[w.Key] = true
					again := rng.IntN(4) == 0
					mu.Unlock()
					time.Sleep(time.Microsecond)
					mu.Lock()
					delete(busy, w.Key)
					if !again {
						causes += w.Causes
					}
					mu.Unlock()
					if again {
						q.Return(w)
						continue
					}
					d.Replace(w, nil, false)
					q.Done(w)
				}
			})
		}
		for i := range adders {
			rng := dice.From(dice.Seed(t), uint64(10+i))
			adding.Go(func() {
				for range each {
					q.Add(key("shop", string(rune('a'+rng.IntN(5)))), Lane(rng.IntN(laneCount)), of("m"))
					if rng.IntN(3) == 0 {
						time.Sleep(time.Microsecond)
					}
				}
			})
		}
		adding.Wait()
		synctest.Wait()
		time.Sleep(time.Second)
		q.ShutDown()
		working.Wait()
		if causes != adders*each || len(q.Oldest(nil)) != 0 {
			t.Errorf("%d causes were compared, want %d; left are %v", causes, adders*each, q.Oldest(nil))
		}
	})
}

func TestSharesOfLanes(t *testing.T) {
	var f fair
	for lane := range laneCount {
		for i := range 100 {
			f.lines[lane].push("m", Lane(lane))
			_ = i
		}
	}
	var got []Lane
	for range 64 {
		got = append(got, f.pop(func(Lane) bool { return true }).(Lane))
		f.served++
	}
	for i := 0; i+4 <= len(got); i++ {
		if !slices.Contains(got[i:i+4], plan.Addition) {
			t.Errorf("no addition among %v", got[i:i+4])
		}
	}
	for i := 0; i+16 <= len(got); i++ {
		if !slices.Contains(got[i:i+16], plan.Bulk) {
			t.Errorf("no bulk work among %v", got[i:i+16])
		}
	}
}
