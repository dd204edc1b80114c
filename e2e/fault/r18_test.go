// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// TestR18NameIsTaken lets somebody else's Service have the name of a replica,
// before and after. It is never touched, the conflict is told, everything else
// goes on, and when the name is free the replica comes.
func TestR18NameIsTaken(t *testing.T) {
	w := newWorld(t, "r18")
	ctx := t.Context()
	theirs := fleet.NewService(w.ns, "taken")
	w.must(w.ingress.Create(ctx, theirs))
	w.service("taken", 2, w.a, w.b)
	w.service("web", 2, w.a, w.b)
	w.service("later", 2, w.a)
	w.start()
	w.converges(10 * time.Second)
	w.conflicts("taken")

	// Ours is deleted, and theirs is there before it is put back, or in its place.
	w.eventually(20*time.Second, func(ctx context.Context) error {
		w.deleteByHand(history.Service, "later")
		made, err := w.ingress.Client.CoreV1().Services(w.ns).Create(ctx, fleet.NewService(w.ns, "later"), metav1.CreateOptions{})
		if err == nil {
			w.rec.Hand(history.Service, made)
		}
		return err
	})
	w.conflicts("later", "taken")
	w.pods(w.a, "later", 100, 1)
	w.pods(w.a, "web", 100, 1)
	w.eventually(5*time.Second, w.counts("web", 5))
	for _, name := range []string{"later", "taken"} {
		s, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, name, metav1.GetOptions{})
		w.must(err)
		if len(s.Spec.Selector) == 0 || len(s.Labels) > 0 {
			t.Errorf("%s was changed: selector %v, labels %v", name, s.Spec.Selector, s.Labels)
		}
		w.deleteByHand(history.Service, name)
	}
	freed := w.eventually(10*time.Second, func(ctx context.Context) error {
		if err := w.counts("taken", 4)(ctx); err != nil {
			return err
		}
		return w.counts("later", 3)(ctx)
	})
	w.conflicts()
	t.Logf("replicas came %s after their names were free", freed)
	w.judge()
}

// conflicts waits until exactly these Services are reported as in conflict.
func (w *world) conflicts(names ...string) {
	w.Helper()
	w.eventually(10*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err != nil {
			return err
		}
		got := map[string]bool{}
		for _, c := range s.Conflicts {
			got[c.Service] = true
		}
		for _, name := range names {
			if !got[name] {
				return fmt.Errorf("conflicts %+v, want %q", s.Conflicts, names)
			}
		}
		if len(got) != len(names) {
			return fmt.Errorf("conflicts %+v, want %q", s.Conflicts, names)
		}
		return nil
	})
}
