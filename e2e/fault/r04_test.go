// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// TestR04MemberRestarts kills the API server of a member and starts it again.
// Nothing is removed, nothing is written, the other member is not slowed, and what
// changes afterwards is seen once it answers.
func TestR04MemberRestarts(t *testing.T) {
	w := newWorld(t, "r04")
	ctx := t.Context()
	w.service("web", 6, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for round := range size(2, 10) {
		quiet, blind := w.quiet(), w.blind(w.a)
		w.a.APIServer().Kill()
		w.pause(time.Duration(w.dice.Int64N(int64(3 * time.Second))))
		quiet.End()
		// The other member is not slowed.
		b := w.seen(w.b, fmt.Sprintf("extra-%d", round))
		w.must(w.a.APIServer().Start(ctx))
		a := w.seen(w.a, fmt.Sprintf("extra-%d", round))
		blind.End()
		t.Logf("round %d: a pod of the other member was visible after %s; one of the restarted after %s", round, b, a)
	}
	w.reportsUp(w.a.Name(), 10*time.Second)
	w.converges(5 * time.Second)
	w.judge()
}

// seen makes a pod of web and returns how long after its ready status was
// acknowledged it is visible.
func (w *world) seen(s *fleet.Site, name string) time.Duration {
	w.Helper()
	return w.added(s, "web", name)
}

// added does the same for any Service.
func (w *world) added(s *fleet.Site, service, name string) time.Duration {
	w.Helper()
	p := fleet.NewPod(w.ns, name, service)
	w.must(s.RunPods(w.Context(), p))
	return w.eventually(20*time.Second, func(ctx context.Context) error { return w.hasReady(ctx, service, p.Status.PodIP) })
}
