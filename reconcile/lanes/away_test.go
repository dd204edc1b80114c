// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"testing"
	"time"
)

func TestBackoffsWhileTheServerIsAway(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		fail := func(name string, times int, after time.Duration) {
			q.Add(key(name), Addition, live("a"))
			for range times {
				q.Retry(mustGet(t, q), 0)
			}
			q.Retry(mustGet(t, q), after)
		}
		fail("asked", 0, 10*time.Second)
		fail("often", 3, 0)
		fail("seldom", 1, 0)
		q.SetAway(true)
		q.Add(key("often"), Removal, live("a"))
		noneFor(t, q, 60*time.Millisecond) // beyond the floor
		start := time.Now()
		q.SetAway(false)
		for _, want := range []string{"often", "seldom"} { // the removal first
			if item := mustGet(t, q); item.Key != key(want) {
				t.Errorf("took %v, want %s", item.Key, want)
			}
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("backoffs end %v after it is back, want at once", took)
		}
		if item := mustGet(t, q); item.Key != key("asked") || time.Since(start) < 9*time.Second {
			t.Errorf("%v came back after %v, sooner than the server asked for", item.Key, time.Since(start))
		}
		q.SetAway(false) // nothing new
		fail("floor", 4, 0)
		failed := time.Now()
		q.SetAway(true)
		q.SetAway(false)
		mustGet(t, q)
		if took := time.Since(failed); took != 50*time.Millisecond {
			t.Errorf("tried again after %v, want the floor", took)
		}
	})
}

// A key that was tried for long while the server was away, and meets one more hiccup
// when it is back, does not wait for what it had to wait then.
func TestFailuresWhileTheServerIsAwayAreForgotten(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.SetAway(true)
		q.Add(key("one"), Removal, live("a"))
		q.Add(key("other"), Removal, live("a"))
		for range 24 {
			q.Retry(mustGet(t, q), 0)
		}
		held := mustGet(t, q)
		q.SetAway(false)
		q.Retry(held, 0) // sent before it was back
		q.Retry(mustGet(t, q), 0)
		start := time.Now()
		mustGet(t, q)
		mustGet(t, q)
		if took := time.Since(start); took > 60*time.Millisecond {
			t.Errorf("tried again %v after one failure, want the first backoff", took)
		}
	})
}

// However long all keys have failed, one can be tried when somebody wants to.
func TestRouseEndsOneBackoffWhereNoKeyIsReady(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Rouse() // nothing to end
		q.SetAway(true)
		q.Add(key("asked"), Removal, live("a"))
		q.Retry(mustGet(t, q), time.Hour)
		q.Add(key("one"), Addition, live("a"))
		q.Add(key("other"), Addition, live("a"))
		for range 16 {
			q.Retry(mustGet(t, q), 0)
		}
		noneFor(t, q, 60*time.Millisecond)
		q.Rouse()
		first := mustGet(t, q)
		q.Retry(first, 0)
		noneFor(t, q, 60*time.Millisecond)
		q.Rouse()
		second := mustGet(t, q)
		if second.Key == first.Key || second.Key == key("asked") {
			t.Errorf("took %v after %v, want the other that failed", second.Key, first.Key)
		}
		q.Add(key("ready"), Bulk, bulk("a"))
		q.Rouse() // a key is ready
		if depth := q.States()[Addition].Depth; depth != 1 {
			t.Errorf("%d keys wait in the lane, want the one in backoff", depth)
		}
		if item := mustGet(t, q); item.Key != key("ready") {
			t.Errorf("took %v, want the one that is ready", item.Key)
		}
		noneFor(t, q, 100*time.Millisecond)
	})
}
