// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/metrics/record"
)

func TestRetryBacksOffAndResetsOnSuccess(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Add(key("web"), Removal, live("a"))
		item := mustGet(t, q)
		for attempt, want := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000} {
			failed := time.Now()
			q.Retry(item, 0)
			item = mustGet(t, q)
			want *= time.Millisecond
			if took := time.Since(failed); took < want || took > want+want/5 {
				t.Errorf("attempt %d after %v, want %v", attempt, took, want)
			}
			if item.Attempt != attempt+1 || len(item.Causes) != 1 || item.Lane != Removal {
				t.Errorf("attempt %d: took %+v", attempt, item)
			}
		}
		q.Done(item.Key)
		q.Add(key("web"), Removal, live("a"))
		item = mustGet(t, q)
		failed := time.Now()
		q.Retry(item, 0)
		if q.Done(mustGet(t, q).Key); time.Since(failed) > 60*time.Millisecond {
			t.Errorf("after a success the first retry came after %v", time.Since(failed))
		}
	})
}

func TestNewEventEndsABackoffButNotTheFloor(t *testing.T) {
	tests := []struct {
		name  string
		after time.Duration
		lane  Lane
		cause record.Cause
		least time.Duration
		most  time.Duration
	}{
		{"live removal", 0, Removal, live("a"), 50 * time.Millisecond, 50 * time.Millisecond},
		{"live addition", 0, Addition, live("a"), 50 * time.Millisecond, 50 * time.Millisecond},
		{"removal that a list tells", 0, Removal, bulk("a"), 50 * time.Millisecond, 50 * time.Millisecond},
		{"removal by a repair", 0, Removal, bulk(""), 400 * time.Millisecond, 480 * time.Millisecond},
		{"bulk", 0, Bulk, bulk("a"), 400 * time.Millisecond, 480 * time.Millisecond},
		{"repair in an urgent lane", 0, Addition, bulk("a"), 400 * time.Millisecond, 480 * time.Millisecond},
		{"the server asked for a delay", 2 * time.Second, Addition, live("a"), 2 * time.Second, 2400 * time.Millisecond},
		{"it asked before the removal", 2 * time.Second, Removal, live("a"), 50 * time.Millisecond, 50 * time.Millisecond},
	}
	for i := range 2 * len(tests) {
		tt, during := tests[i/2], i%2 == 1
		t.Run(fmt.Sprintf("%s, during the attempt %v", tt.name, during), func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, q *Queue) {
				q.Add(key("web"), Removal, live("a"))
				for range 3 {
					q.Retry(mustGet(t, q), 0)
				}
				item := mustGet(t, q)
				if during {
					q.Add(key("web"), tt.lane, tt.cause)
				}
				failed := time.Now()
				q.Retry(item, tt.after)
				if !during {
					q.Add(key("web"), tt.lane, tt.cause)
				}
				item = mustGet(t, q)
				if took := time.Since(failed); took < tt.least || took > tt.most {
					t.Errorf("came back after %v, want %v to %v", took, tt.least, tt.most)
				}
				if len(item.Causes) != 2 {
					t.Errorf("causes %+v", item.Causes)
				}
			})
		})
	}
}

func TestRetryAfterIsNoFailureOfTheKey(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, q *Queue) {
		q.Add(key("web"), Removal, live("a"))
		for range 5 {
			q.Retry(mustGet(t, q), time.Second)
		}
		if item := mustGet(t, q); item.Attempt != 0 {
			t.Errorf("attempt %d", item.Attempt)
		}
	})
}
