// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/e2e/history"
)

// TestR11MassNotReady turns all pods of a member not ready at once, as when its
// nodes fall silent. The last ready ones stay until they recover. One Service
// alone that goes to none ready is a bad roll-out and passes.
func TestR11MassNotReady(t *testing.T) {
	w := newWorld(t, "r11")
	ctx := t.Context()
	names := map[string]int{"web": 30, "api": 20, "one": 6}
	made := map[string][]*corev1.Pod{}
	for name, n := range names {
		made[name] = w.service(name, n, w.a)
	}
	w.service("other", 3, w.b)
	w.start()
	w.converges(10 * time.Second)

	flip := func(service string, to func(context.Context, string, string) error) {
		for _, p := range made[service] {
			w.must(to(ctx, w.ns, p.Name))
		}
	}
	flip("one", w.a.MarkNotReady)
	passed := w.eventually(2*time.Second, w.counts("one", 0))
	flip("one", w.a.MarkReady)
	w.converges(5 * time.Second)

	// What turns not ready before it is a mass goes, and comes back.
	free := w.rec.Begin(history.Free, w.a.Name())
	for name := range names {
		flip(name, w.a.MarkNotReady)
	}
	noticed := w.holds(w.a.Name(), 10*time.Second)
	kept := w.eventually(5*time.Second, func(ctx context.Context) error {
		for name, n := range names {
			if err := w.counts(name, n)(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	quiet := w.quiet()
	w.pause(time.Duration(size(4, 90)) * time.Second)
	quiet.End()
	w.pods(w.b, "other", 100, 1)
	w.eventually(5*time.Second, w.counts("other", 4))
	for name := range names {
		flip(name, w.a.MarkReady)
	}
	w.holdsNothing(30 * time.Second)
	w.converges(10 * time.Second)
	free.End()
	t.Logf("one Service: passed after %s; all: noticed %s after the last, ready again %s later", passed, noticed, kept)
	w.judge()
}
