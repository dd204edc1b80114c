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
