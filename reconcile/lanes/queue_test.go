// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
)

func TestRemovalsAreComparedFirstAndMembersTakeTurns(t *testing.T) {
	q := NewQueue("", nil)
	add := func(name, member string, lane plan.Lane) { q.Add(time.Now(), key("shop", name), lane, of(member)) }
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
		w := q.Next()
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
		q.Add(start, k, plan.Bulk, record.Cause{Name: "list", Cluster: "a", Arrival: at(1)})
		q.Add(start, k, plan.Addition, record.Cause{Name: "late", Cluster: "a", Arrival: at(4), Live: true})
		q.Add(start, k, plan.Removal, record.Cause{Name: "early", Cluster: "b", Arrival: at(3), Live: true})
		d := NewDispatch(q)
		if got := d.oldest(); !got["a"].Equal(at(1)) || !got["b"].Equal(at(3)) {
			t.Errorf("the oldest are %v", got)
		}
		w := q.Next()
		if w.Cause.Name != "early" || w.Causes != 3 || w.Lane != plan.Removal {
			t.Errorf("the work is %+v", w)
		}
		q.Add(start, k, plan.Bulk, record.Cause{Name: "new", Cluster: "a", Arrival: at(5)})
		if q.Next() != nil {
			t.Error("a key is compared twice at once")
		}
		d.Replace(start, w, nil, false)
		q.Done(w)
		if got := d.oldest(); len(got) != 1 || !got["a"].Equal(at(5)) || q.Len() != 1 {
			t.Errorf("left are %v", got)
		}
	})
}

func TestSharesOfLanes(t *testing.T) {
	var f fair
	for lane := range laneCount {
		for i := range 100 {
			f.lines[lane].push("m", plan.Lane(lane))
			_ = i
		}
	}
	var got []plan.Lane
	for range 64 {
		got = append(got, f.pop(func(plan.Lane) bool { return true }).(plan.Lane))
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
