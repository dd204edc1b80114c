// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "testing"

// TestListsAreNotRemembered: what a list or a first fill makes of a Service with
// thousands of pods costs little memory, and live events have the room they need.
func TestListsAreNotRemembered(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		for range 5000 {
			q.Add(key("web"), Bulk, bulk("a"))
		}
		for range maxCauses - maxQuiet {
			q.Add(key("web"), Addition, live("a"))
		}
		q.Add(key("web"), Bulk, bulk("a"))
		item := mustGet(t, q)
		quiet := 0
		for _, c := range item.Causes {
			if !c.Live {
				quiet++
			}
		}
		if quiet != maxQuiet || len(item.Causes) != maxCauses || item.Dropped != 5001-maxQuiet {
			t.Errorf("%d causes, %d of them quiet, %d dropped", len(item.Causes), quiet, item.Dropped)
		}
		q.Done(item.Key)
	})
}
