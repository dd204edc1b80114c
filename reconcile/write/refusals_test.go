// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestRefusalsAreTriedAgainMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var due []time.Duration
		start := time.Now()
		known := []plan.Refusal{{Cluster: "a"}}
		var r *Refusals
		r = NewRefusals(time.Second, func(key syncer.Key) {
			if now, former := r.Known(key, false, false, time.Now()); len(now) != 0 || len(former) != 1 {
				t.Errorf("known %v, former %v", now, former)
			}
			due = append(due, time.Since(start))
			start = time.Now()
			r.Settle(key, known, Pass{Refused: true}, start)
		})
		r.Settle(web, known, Pass{Refused: true}, time.Now())
		time.Sleep(300 * time.Millisecond)
		if now, _ := r.Known(web, false, false, time.Now()); len(now) != 1 {
			t.Error("tried again too early")
		}
		if now, _ := r.Known(web, false, true, time.Now()); len(now) != 0 {
			t.Error("news from a member change nothing")
		}
		if now, _ := r.Known(web, true, true, time.Now()); len(now) != 1 {
			t.Error("a removal waits for a trial")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i, d := range due {
			if want := min(time.Second<<i, refusalMost); d != want {
				t.Errorf("trial %d after %v, want %v", i, d, want)
			}
		}
		if len(due) < 15 || len(due) > 25 {
			t.Errorf("%d trials in an hour", len(due))
		}
		r.Settle(web, nil, Pass{}, time.Now())
		if len(r.of) != 0 {
			t.Error("kept in memory")
		}
		r.Stop()
	})
}

func TestWhatCountsAsRefused(t *testing.T) {
	internal := func(message string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Message: message}}
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("cut"), false},
		{apierrors.NewBadRequest("x"), true},
		{apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		{internal("etcdserver: request is too large"), true},
		{internal("rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097200 vs. 2097152)"), true},
		{internal("etcdserver: leader changed"), false},
		{apierrors.NewConflict(corev1.Resource("endpoints"), "web", nil), false},
	} {
		if got := Refused(test.err); got != test.want {
			t.Errorf("refused(%v) = %v", test.err, got)
		}
	}
}

// Where nothing else would be ready, everything is tried at once, and not without end.
func TestRefusalsOfWhatIsAllThereIsAreTriedNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := []plan.Refusal{{Cluster: "a"}}
		var due []time.Duration
		start := time.Now()
		r := NewRefusals(time.Second, func(syncer.Key) { due = append(due, time.Since(start)) })
		defer r.Stop()
		if r.TryNow(web, start) {
			t.Error("nothing is left out")
		}
		for range 10 { // a long pause
			r.Settle(web, known, Pass{Refused: true}, start)
		}
		tried := 0
		for range 60 {
			if r.TryNow(web, time.Now()) {
				tried++
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if tried < 5 || tried > 8 {
			t.Errorf("tried %d times in 6 s", tried)
		}
		synctest.Wait()
		if len(due) == 0 || due[0] != time.Second {
			t.Errorf("another look after %v, want one after the shortest pause", due)
		}
	})
}

// What is left out is due once an object is taken that was refused whatever was in it.
func TestRefusalsAreDueOnceAnObjectIsTaken(t *testing.T) {
	for _, c := range []struct {
		name           string
		refused, after Pass
		due            bool
	}{
		{"it is taken", Pass{Refused: true, Whole: true}, Pass{Taken: true}, true},
		{"nothing is written", Pass{Refused: true, Whole: true}, Pass{}, false},
		{"it is refused again", Pass{Refused: true, Whole: true}, Pass{Refused: true, Taken: true}, false},
		{"it was refused for what was in it", Pass{Refused: true}, Pass{Taken: true}, false},
	} {
		r := NewRefusals(time.Hour, func(syncer.Key) {})
		now, known := time.Now(), []plan.Refusal{{Cluster: "a"}}
		r.Settle(web, known, c.refused, now)
		r.Settle(web, known, c.after, now)
		if left, _ := r.Known(web, false, false, now); (len(left) == 0) != c.due {
			t.Errorf("%s: due %t, want %t", c.name, len(left) == 0, c.due)
		}
		r.Stop()
	}
}
