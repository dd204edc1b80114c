// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
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
func TestRetryNowTriesOneKeyWhileTheServerIsAway(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		if q.RetryNow() {
			t.Error("a key waits in an empty queue")
		}
		for _, name := range []string{"one", "other"} {
			q.Add(key(name), Addition, live("a"))
			item := admitted(t, q, Addition)
			q.Retry(item, 0)
		}
		q.SetAway(true)
		noneFor(t, q, time.Minute) // both are in line again
		for range 8 {
			if !q.RetryNow() {
				t.Error("no key waits")
			}
			item := mustGet(t, q)
			if !item.Trial || !q.Admit(&item, Addition) {
				t.Errorf("%+v may not be written", item)
			}
			noneFor(t, q, time.Millisecond) // one, and no more
			q.Retry(item, 0)
		}
		q.RetryNow()
		first := mustGet(t, q)
		q.Retry(first, 0)
		q.RetryNow()
		if second := mustGet(t, q); second.Key == first.Key {
			t.Errorf("tried %v twice, though the other was due first", first.Key)
		}
	})
}

// While the server is away, what changes is compared and waits in the lane of its
// difference, so that what takes addresses away is written first when it is back.
func TestKeysAreComparedWhileTheServerIsAway(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.SetAway(true)
		for i := range 20 {
			q.Add(key(fmt.Sprint("k", i)), Bulk, bulk("a"))
		}
		for range 20 {
			item := mustGet(t, q)
			lane := Bulk
			if item.Key == key("k13") {
				lane = Removal
			}
			if q.Admit(&item, lane) {
				t.Errorf("%v may be written to a server that is away", item.Key)
			}
		}
		noneFor(t, q, time.Minute)
		q.SetAway(false)
		if item := mustGet(t, q); item.Key != key("k13") || item.Lane != Removal {
			t.Errorf("took %v from %s first", item.Key, item.Lane)
		}
	})
}
