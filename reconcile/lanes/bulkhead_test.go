// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/syncer"
)

// serve has workers write keys of which each request takes as long as its namespace says;
// what is written is told.
func serve(ctx context.Context, q *Queue, takes map[string]time.Duration, written chan<- syncer.Key) {
	work(ctx, q, func(item Item) {
		if !q.Admit(&item, item.Lane) {
			return
		}
		slot, err := q.Acquire(ctx, item)
		if err != nil {
			return
		}
		took := takes[item.Key.Namespace]
		time.Sleep(max(took, time.Millisecond))
		if took > stalledAfter { // it has had no answer
			slot.End(Congested)
			q.Retry(item, 0)
			return
		}
		slot.End(Measured)
		q.Done(item.Key)
		written <- item.Key
	})
}

// Whatever number of namespaces gives no answer, now one and then another, the next is
// written within about a second.
func TestNamespacesThatDoNotAnswerLeaveRoom(t *testing.T) {
	for _, lane := range lanes {
		bubble(t, Options{}, func(t *testing.T, q *Queue) {
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan syncer.Key, 1)
			takes := map[string]time.Duration{}
			for n := range 5 {
				takes[fmt.Sprint("slow", n)] = 10 * time.Second
			}
			serve(ctx, q, takes, written)
			for round := range 20 {
				for i := range 40 {
					q.Add(syncer.Key{Namespace: fmt.Sprint("slow", round%5), Name: fmt.Sprint(i)}, lane, live("a"))
				}
				time.Sleep(100 * time.Millisecond)
				began := time.Now()
				q.Add(syncer.Key{Namespace: "shop", Name: fmt.Sprint(round)}, lane, live("a"))
				<-written
				if took := time.Since(began); took > 2*time.Second || lane == Removal && took > time.Second {
					t.Errorf("%s: round %d took %v", lane, round, took)
				}
				time.Sleep(time.Duration(round) * 300 * time.Millisecond)
			}
			stop()
			time.Sleep(20 * time.Second)
		})
	}
}

// Nor do others wait for long where a great many give no answer at once, each for one key.
func TestAnyNumberOfNamespacesThatDoNotAnswerLeavesRoom(t *testing.T) {
	for _, lane := range []Lane{Removal, Addition} {
		bubble(t, Options{}, func(t *testing.T, q *Queue) {
			ctx, stop := context.WithCancel(t.Context())
			written := make(chan syncer.Key, 1)
			takes := map[string]time.Duration{}
			for n := range 400 {
				takes[fmt.Sprint("slow", n)] = 10 * time.Second
			}
			serve(ctx, q, takes, written)
			for namespace := range takes {
				q.Add(syncer.Key{Namespace: namespace, Name: "web"}, lane, live("a"))
			}
			time.Sleep(100 * time.Millisecond)
			for round := range 5 {
				began := time.Now()
				q.Add(syncer.Key{Namespace: "shop", Name: fmt.Sprint(round)}, lane, live("a"))
				<-written
				if took := time.Since(began); took > 4*time.Second || lane == Removal && took > 2*time.Second {
					t.Errorf("%s: round %d took %v", lane, round, took)
				}
			}
			stop()
			time.Sleep(20 * time.Second)
		})
	}
}

// Keys that ask much hold no place that another removal needs.
func TestKeysThatAskMuchGiveTheirPlacesUp(t *testing.T) {
	bubble(t, Options{Workers: 4}, func(t *testing.T, q *Queue) {
		for n := range 50 {
			q.Add(syncer.Key{Namespace: "tenant", Name: fmt.Sprint(n)}, Removal, live("a"))
		}
		searching := 0
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		taken := make(chan Item)
		work(ctx, q, func(item Item) { taken <- item })
		next := func() (item Item, ok bool) {
			synctest.Wait()
			select {
			case item = <-taken:
				return item, true
			default:
				return item, false
			}
		}
		for item, ok := next(); ok; item, ok = next() {
			if q.Admit(&item, Removal) {
				q.SetApart(item)
				searching++
			}
		}
		if searching < 4 || searching > 2*4 {
			t.Errorf("%d ask at once", searching)
		}
		q.Add(key("web"), Removal, live("a"))
		if item, ok := next(); !ok || item.Key != key("web") || !q.Admit(&item, Removal) {
			t.Errorf("another waits: %v, %v", item.Key, ok)
		}
	})
}

// A namespace that answers again is written as any other.
func TestNamespaceThatAnswersAgainIsLateNoMore(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		ctx, stop := context.WithCancel(t.Context())
		written := make(chan syncer.Key, 100)
		serve(ctx, q, nil, written)
		q.mu.Lock()
		e := newEntry(key("web"))
		q.lockedLate(e)
		q.mu.Unlock()
		q.Add(key("web"), Removal, live("a"))
		<-written
		if q.mu.Lock(); len(q.late)+len(q.bulkheads) > 0 {
			t.Errorf("late are %v, bulkheads %v", q.late, q.bulkheads)
		}
		q.mu.Unlock()
		stop()
		time.Sleep(time.Second)
	})
}

// A key that failed comes behind those of its lane that have not.
func TestFailedKeyComesBehindOthers(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Add(key("failed"), Removal, live("a"))
		q.Retry(mustGet(t, q), 0)
		time.Sleep(time.Second)
		q.Add(key("fresh"), Removal, live("a"))
		first := mustGet(t, q)
		if first.Key != key("fresh") {
			t.Errorf("%v came first", first.Key)
		}
		q.Done(first.Key)
		q.Done(mustGet(t, q).Key)
	})
}
