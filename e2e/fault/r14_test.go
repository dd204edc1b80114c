// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// TestR14IngressDown takes the ingress cluster away while many Services of a
// member grow again and again, and one of the other shrinks. What waits is one
// request an object, however many events there were; afterwards each changed object
// is written once, and the removal is not behind the rest.
func TestR14IngressDown(t *testing.T) {
	w := newWorld(t, "r14")
	ctx := t.Context()
	services, rounds := size(40, 400), size(6, 20)
	w.config.lease = "60s" // it leads on
	for i := range services {
		w.service(fmt.Sprintf("app-%d", i), 1, w.a)
	}
	w.service("shrinks", 3, w.b)
	w.start()
	w.converges(20 * time.Second)

	down := w.rec.Begin(history.IngressDown, "")
	w.ingress.APIServer().Kill()
	for round := range rounds {
		var more []*corev1.Pod
		for i := range services {
			app := fmt.Sprintf("app-%d", i)
			more = append(more, fleet.NewPod(w.ns, fmt.Sprintf("%s-more-%d", app, round), app))
		}
		w.must(w.a.RunPods(ctx, more...))
	}
	w.must(w.b.Remove(ctx, w.ns, "shrinks-0"))
	waiting := 0
	w.eventually(5*time.Second, func(ctx context.Context) (err error) {
		var leads bool
		if waiting, leads, err = w.depth(ctx); err == nil && leads && waiting < services+1 {
			err = fmt.Errorf("%d requests wait", waiting)
		}
		return err // who leads no more, for the Lease has run out meanwhile, plans nothing
	})
	if waiting > 2*(services+1) {
		t.Errorf("%d requests wait, want one for each object of %d replicas", waiting, services+1)
	}
	back := time.Now()
	w.must(w.ingress.APIServer().Start(ctx))
	up := time.Now()
	w.converges(10 * time.Second)
	down.End()
	t.Logf("%d pods came while it was away, %d requests waited; converged %s after it was back", rounds*services, waiting, time.Since(up))
	w.writtenOnce(back, "shrinks")
	w.freezeIngress()
	w.judge()
}

// freezeIngress stops the ingress cluster where it is while nothing is to be written to
// it, as when its machine hangs: connections stay open, and nothing answers.
func (w *world) freezeIngress() {
	w.Helper()
	w.settled()
	w.reportsIngress(true, 10*time.Second)
	frozen := w.rec.Begin(history.IngressDown, "")
	w.must(w.ingress.APIServer().Freeze())
	down := w.reportsIngress(false, 12*time.Second)
	w.must(w.b.Remove(w.Context(), w.ns, "shrinks-1"))
	w.must(w.ingress.APIServer().Thaw())
	up := w.reportsIngress(true, 10*time.Second)
	w.converges(10 * time.Second)
	frozen.End()
	w.Logf("frozen: reported down after %s, and up %s after it went on", down, up)
}

// reportsIngress waits until the ingress cluster is reported up, or down, and returns
// how long that took.
func (w *world) reportsIngress(up bool, limit time.Duration) time.Duration {
	w.Helper()
	return w.eventually(limit, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err == nil && s.Ingress.Up != up {
			err = fmt.Errorf("the ingress cluster is reported up: %v, want %v (%s)", s.Ingress.Up, up, s.Ingress.LastError)
		}
		return err
	})
}

// depth is how many requests wait, or are not answered.
func (w *world) depth(ctx context.Context) (n int, leads bool, err error) {
	s, err := w.status(ctx)
	for _, lane := range s.Lanes {
		n += lane.Depth + lane.Working
	}
	return n, s.Leader.State == "leading", err
}

// writtenOnce checks that each object of a replica was written once since a moment, and
// the named replica among the first that were sent: answers come in any order. Events tell.
func (w *world) writtenOnce(since time.Time, urgent string) {
	w.Helper()
	writes := w.writesSince(since, func(x cluster.Write) bool { return x.Resource != "events" && x.Code < 300 })
	count := map[string]int{}
	for _, x := range writes {
		count[x.Resource+" "+x.Name]++
	}
	for object, n := range count {
		if n > 1 {
			w.Errorf("%s was written %d times, want once", object, n)
		}
	}
	place := slices.IndexFunc(writes, func(x cluster.Write) bool { return x.Resource == "endpoints" && x.Name == urgent })
	w.Logf("%d writes after it was back, the removal was number %d", len(writes), place+1)
	if place < 0 || place >= 64 { // as many requests may be under way at once
		w.Errorf("the removal was write number %d of %d, want it among the first", place+1, len(writes))
	}
}
