// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestBulkIsWideWhenCalmAndNarrowBesideLiveChanges(t *testing.T) {
	bubble(t, Options{Workers: 24}, func(t *testing.T, q *Queue) {
		for i := range 40 {
			q.Add(key(fmt.Sprint("b", i)), Bulk, bulk("a"))
		}
		var held []Item
		for range 12 {
			held = append(held, mustGet(t, q))
		}
		noneFor(t, q, time.Minute)
		q.Add(key("r"), Removal, live("a"))
		removal := mustGet(t, q)
		for i := range 8 { // none follows these
			q.Done(held[i].Key)
		}
		noneFor(t, q, time.Minute)
		q.Done(held[8].Key)
		if item := mustGet(t, q); item.Lane != Bulk {
			t.Errorf("took %v from %s", item.Key, item.Lane)
		}
		q.Done(removal.Key)
		noneFor(t, q, calmAfter/2)
		time.Sleep(calmAfter)
		for range 8 {
			mustGet(t, q)
		}
		noneFor(t, q, time.Minute)
	})
}

func TestBulkYieldsToLiveChangesButNotForEver(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		yields := func(lane Lane) time.Duration {
			start := time.Now()
			q.Yield(t.Context(), lane)
			return time.Since(start)
		}
		if waited := yields(Bulk); waited != 0 {
			t.Errorf("yielded %v to nobody", waited)
		}
		q.Add(key("r"), Removal, live("a"))
		q.Add(key("a"), Addition, live("a"))
		removal, addition := mustGet(t, q), mustGet(t, q)
		if waited := yields(Bulk); waited != yieldMost {
			t.Errorf("yielded %v, want %v", waited, yieldMost)
		}
		if waited := max(yields(Removal), yields(Addition)); waited != 0 {
			t.Errorf("a live change yielded %v", waited)
		}
		ended := make(chan time.Duration)
		go func() { ended <- yields(Bulk) }()
		time.Sleep(yieldMost / 4)
		q.Done(removal.Key)
		time.Sleep(yieldMost / 4)
		q.Retry(addition, 0)
		synctest.Wait()
		if waited := <-ended; waited != yieldMost/2 {
			t.Errorf("yielded %v, want %v", waited, yieldMost/2)
		}
		q.Done(mustGet(t, q).Key)
	})
}
