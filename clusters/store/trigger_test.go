// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"
)

func (w *world) trigger(what string, got []SourceContribution, want int64) {
	w.t.Helper()
	var seconds int64
	if at := got[0].Trigger; !at.IsZero() {
		seconds = at.Unix()
	}
	if seconds != want {
		w.t.Errorf("%s: trigger %d, want %d", what, seconds, want)
	}
}

// TestTriggerIsKeptUntilWritten checks that a write that failed does not lose
// the time of what it was to tell.
func TestTriggerIsKeptUntilWritten(t *testing.T) {
	w := newWorld(t)
	svc := aService("web", "web")
	svc.Created = 50
	w.serve(svc)
	w.upsert(aPod("p1", "web", 60))
	w.trigger("a look before all", w.Peek(in("web")), 50)
	w.trigger("the first time", w.Contributions(in("web")), 50)
	w.trigger("nothing new", w.Contributions(in("web")), 0)

	w.upsert(aPod("p1", "web", 70))
	w.trigger("a look", w.Peek(in("web")), 70)
	got, _ := w.Gather(in("web"))
	w.trigger("gathered, and the write failed", got, 70)
	w.upsert(aPod("p2", "web", 80))
	w.trigger("a look", w.Peek(in("web")), 70)
	got, commit := w.Gather(in("web"))
	w.trigger("gathered again", got, 70)
	commit()
	w.trigger("a look after the write", w.Peek(in("web")), 0)
	got, _ = w.Gather(in("web"))
	w.trigger("after the write", got, 0)

	svc.UID, svc.Created = "another", 55
	w.serve(svc)
	commit() // of a time that is gone
	w.trigger("another Service", w.Contributions(in("web")), 55)
}

func TestEarlier(t *testing.T) {
	a, b := time.Unix(1, 0), time.Unix(2, 0)
	for _, test := range [][3]time.Time{{a, b, a}, {b, a, a}, {{}, b, b}, {b, {}, b}, {{}, {}, {}}} {
		if got := earlier(test[0], test[1]); !got.Equal(test[2]) {
			t.Errorf("earlier(%v, %v) = %v", test[0], test[1], got)
		}
	}
}
