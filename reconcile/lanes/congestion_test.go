// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"testing"
	"time"
)

// A server of so many processors takes as much longer as it has more requests.
func TestWindowFollowsTheTimeOfRequests(t *testing.T) {
	const alone = 2 * time.Millisecond
	tests := []struct {
		name       string
		processors float64
		tolerance  float64
		least      int
		most       int
	}{
		{"two processors beside removals", 2, besideTolerance, 3, 5},
		{"two processors in calm", 2, calmTolerance, 24, 34},
		{"many processors beside removals", 100, besideTolerance, 48, 48},
		{"a server that does one at a time", 1, 1.5, 1, 2},
		{"a server that is always slower than it was once", 0.1, besideTolerance, 1, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newCongestion(48, test.tolerance)
			low, high := 48, 1
			for i := range 2000 {
				n := c.limit()
				if n < 1 || n > 48 {
					t.Fatalf("the limit is %d", n)
				}
				if i > 500 {
					low, high = min(low, n), max(high, n)
				}
				took := time.Duration(float64(alone) * max(1, float64(n)/test.processors))
				c.answered(took, alone, true)
			}
			if high < test.least || high > 2*test.most || low < max(1, test.least/2) {
				t.Errorf("the limit is between %d and %d, want about %d to %d", low, high, test.least, test.most)
			}
		})
	}
}

func TestWindowThatIsNotUsedDoesNotGrow(t *testing.T) {
	c := newCongestion(24, calmTolerance)
	for range 100 {
		c.answered(time.Millisecond, time.Millisecond, false)
	}
	if c.limit() != startWindow {
		t.Errorf("the limit is %d, want %d", c.limit(), startWindow)
	}
}

func TestWindowShrinksOnceARound(t *testing.T) {
	c := newCongestion(24, calmTolerance)
	for range 100 {
		c.answered(time.Millisecond, time.Millisecond, true)
	}
	for range 12 { // of 24 that are under way, half are refused
		c.refused()
	}
	if c.limit() != 12 {
		t.Errorf("the limit is %d after one round of refusals, want 12", c.limit())
	}
	for range 500 {
		c.refused()
	}
	if c.limit() != 1 {
		t.Errorf("the limit is %d however much is refused, want 1", c.limit())
	}
}

func TestUndisturbedTimeIsALowQuantile(t *testing.T) {
	const ms = time.Millisecond
	var u undisturbed
	for i := range 200 { // a noisy machine, with a lucky answer now and then
		u.add([]time.Duration{6 * ms, 4 * ms, 9 * ms, 5 * ms}[i%4], true)
		if i%50 == 49 {
			u.add(ms, true)
		}
	}
	if got := u.add(5*ms, true); got < 2*ms || got > 6*ms {
		t.Errorf("undisturbed is %v, want about 4 ms, not the lucky one", got)
	}
	before := u.add(5*ms, true)
	for range 1000 { // many at once take longer
		u.add(50*ms, false)
	}
	if got := u.add(50*ms, false); got != before {
		t.Errorf("undisturbed is %v beside others, want %v still", got, before)
	}
	for range 100 { // a storm of other work
		u.add(10*ms, true)
	}
	if got := u.add(10*ms, true); got > 2*before {
		t.Errorf("undisturbed is %v after a storm, and was %v", got, before)
	}
	for range 1000 {
		u.add(20*ms, true)
	}
	if got := u.add(20*ms, true); got < 18*ms {
		t.Errorf("undisturbed is %v of a server that has become slower, want 20 ms", got)
	}
}

func TestTurnsGiveEachLaneAShare(t *testing.T) {
	tests := []struct {
		name  string
		waits [laneCount]bool
		least [laneCount]int // of 900 turns
	}{
		{"all wait", [laneCount]bool{true, true, true}, [laneCount]int{500, 90, 90}},
		{"removals and bulk", [laneCount]bool{true, false, true}, [laneCount]int{750, 0, 90}},
		{"additions and bulk", [laneCount]bool{false, true, true}, [laneCount]int{0, 750, 90}},
		{"bulk alone", [laneCount]bool{false, false, true}, [laneCount]int{0, 0, 900}},
	}
	for _, test := range tests {
		var turns turns
		var had [laneCount]int
		for range 900 {
			lane, ok := turns.next(test.waits)
			if !ok || !test.waits[lane] {
				t.Fatalf("%s: %v's turn", test.name, lane)
			}
			turns.took(lane, test.waits)
			had[lane]++
		}
		for _, lane := range lanes {
			if had[lane] < test.least[lane] {
				t.Errorf("%s: %v had %d turns, want %d", test.name, lane, had[lane], test.least[lane])
			}
		}
	}
	if _, ok := new(turns).next([laneCount]bool{}); ok {
		t.Error("a turn for nobody")
	}
}

func TestBucketHoldsItsRate(t *testing.T) {
	now := time.Now()
	b := newBucket(20, 1, now)
	start, sent := now, 0
	for sent < 100 {
		if wait := b.ready(now); wait > 0 {
			now = now.Add(wait)
			continue
		}
		b.take()
		sent++
	}
	if took := now.Sub(start); took < 4*time.Second || took > 5*time.Second {
		t.Errorf("100 requests at 20 a second took %v", took)
	}
	var free bucket
	free.take()
	if free.ready(now) != 0 {
		t.Error("no limit, and yet a wait")
	}
}
