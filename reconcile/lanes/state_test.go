// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"maps"
	"testing"
	"time"
)

func TestStatesCountWaitingBackoffAndWork(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		check := func(want map[Lane]State) {
			t.Helper()
			if got := q.States(); !maps.Equal(got, want) {
				t.Errorf("lanes are %+v\nwant %+v", got, want)
			}
		}
		check(map[Lane]State{Removal: {}, Addition: {}, Bulk: {}})
		q.Add(key("fails"), Removal, live("a"))
		q.Retry(mustGet(t, q), 10*time.Second)
		time.Sleep(2 * time.Second)
		q.Add(key("waits"), Bulk, bulk("a"))
		q.Add(key("held"), Removal, live("a"))
		held := mustGet(t, q)
		q.Add(key("held"), Addition, live("a"))
		time.Sleep(3 * time.Second)
		check(map[Lane]State{
			Removal:  {Depth: 1, Working: 1, Oldest: 5 * time.Second, Unfinished: 3 * time.Second, Longest: 3 * time.Second},
			Addition: {Depth: 1, Oldest: 3 * time.Second},
			Bulk:     {Depth: 1, Oldest: 3 * time.Second},
		})
		q.Retry(held, 10*time.Second)
		check(map[Lane]State{
			Removal: {Depth: 2, Oldest: 5 * time.Second}, Addition: {}, Bulk: {Depth: 1, Oldest: 3 * time.Second},
		})
	})
}

// A key that fails while the server takes others is no lag, and as soon as it is written
// or the server was away its age counts again.
func TestKeysThatFailAloneDoNotCount(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		lag := func(want time.Duration) {
			t.Helper()
			at, ok := q.OldestArrivals()["a"]
			if got := time.Since(at); ok != (want > 0) || ok && got != want {
				t.Errorf("lag %v (%t), want %v", got, ok, want)
			}
			if oldest := q.States()[Removal].Oldest; oldest != want {
				t.Errorf("the oldest removal is %v old, want %v", oldest, want)
			}
		}
		q.Add(key("denied"), Removal, live("a"))
		start := time.Now()
		for n := range FailsAlone + 3 {
			item := mustGet(t, q)
			if n >= FailsAlone {
				lag(0)
			}
			q.Retry(item, 0)
			if time.Sleep(time.Second); n < FailsAlone-1 {
				lag(time.Since(start))
			}
		}
		time.Sleep(time.Minute)
		lag(0)
		q.Add(key("denied"), Addition, live("a"))
		lag(0)
		q.Add(key("other"), Removal, live("a"))
		time.Sleep(time.Second)
		lag(time.Second)
		q.SetAway(true)
		lag(time.Since(start))
		q.SetAway(false)
		lag(time.Since(start))
		for range 2 {
			q.Done(mustGet(t, q).Key)
		}
		lag(0)
	})
}
