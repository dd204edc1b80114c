// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
)

// TestR08AnotherClusterAnswers lets another cluster answer at a member's address
// with the same certificate and the same tokens. It is known by its identity
// before anything of it is used: nothing is written.
func TestR08AnotherClusterAnswers(t *testing.T) {
	w := newWorld(t, "r08")
	ctx := t.Context()
	ours, theirs := w.twoClusters()

	blind, quiet := w.blind(w.a), w.quiet()
	w.must(w.a.Restore(ctx, theirs))
	noticed := w.reports(w.a.Name(), 20*time.Second, "known for another cluster", isAnother)
	w.pause(3 * time.Second)
	quiet.End()
	w.pods(w.b, "other", 100, 1)
	w.eventually(5*time.Second, w.counts("other", 4))

	back := w.ownBack(ours)
	blind.End()
	t.Logf("reported as another cluster after %s; converged %s after the own one was back", noticed, back)
	w.judge()

	// It is meant: its line is taken out of the record, and the member starts with it.
	w.must(w.a.Restore(ctx, theirs))
	w.reports(w.a.Name(), 20*time.Second, "known for another cluster", isAnother)
	record, err := w.ingress.Client.CoreV1().ConfigMaps(own).Get(ctx, "tributary-identities.default", metav1.GetOptions{})
	w.must(err)
	delete(record.Data, w.a.Name())
	_, err = w.ingress.Client.CoreV1().ConfigMaps(own).Update(ctx, record, metav1.UpdateOptions{})
	w.must(err)
	t.Logf("the other cluster was accepted after %s", w.reportsUp(w.a.Name(), 30*time.Second))
	// It has what the second member has, to the UIDs of its pods, and nothing else.
	w.eventually(20*time.Second, func(ctx context.Context) error {
		_, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("what only the former cluster had is still there"))
	})
}

// TestR08AnotherClusterAtStart does the same across a restart: nothing is known
// of the member then but what was published before.
func TestR08AnotherClusterAtStart(t *testing.T) {
	w := newWorld(t, "r08b")
	ctx := t.Context()
	ours, theirs := w.twoClusters()
	// By then a member's identity has been written down.
	w.eventually(15*time.Second, func(ctx context.Context) error {
		record, err := w.ingress.Client.CoreV1().ConfigMaps(own).Get(ctx, "tributary-identities.default", metav1.GetOptions{})
		if err == nil && record.Data[w.a.Name()] == "" {
			err = errors.New("the record does not have it")
		}
		return err
	})

	w.kill()
	blind, quiet := w.blind(w.a), w.quiet()
	w.must(w.a.Restore(ctx, theirs))
	w.restartBlind()
	noticed := w.reports(w.a.Name(), 20*time.Second, "known for another cluster", isAnother)
	w.pause(3 * time.Second)
	quiet.End()

	back := w.ownBack(ours)
	blind.End()
	t.Logf("reported as another cluster %s after the restart; converged %s after the own one was back", noticed, back)
	w.judge()
}

// twoClusters runs tributary over two members that differ, and returns what both
// have stored.
func (w *world) twoClusters() (ours, theirs cluster.Snapshot) {
	w.Helper()
	w.service("web", 4, w.a)
	w.service("other", 3, w.b)
	w.start()
	w.converges(10 * time.Second)
	ours, err := w.a.Snapshot(w.Context())
	w.must(err)
	w.Cleanup(func() { w.must(w.a.Restore(context.Background(), ours)) })
	theirs, err = w.b.Snapshot(w.Context())
	w.must(err)
	return ours, theirs
}

// ownBack puts the member's own store back, which is no reason to write, and
// returns how long it took then to follow it again.
func (w *world) ownBack(ours cluster.Snapshot) time.Duration {
	w.Helper()
	quiet := w.quiet()
	w.must(w.a.Restore(w.Context(), ours))
	w.must(w.rec.Reset(w.Context(), w.a.Name()))
	w.reportsUp(w.a.Name(), 20*time.Second)
	w.pause(time.Second)
	quiet.End()
	w.pods(w.a, "web", 100, 1)
	return w.converges(10 * time.Second)
}

func isAnother(c clusterStatus) bool { return c.has("OtherCluster") && !c.Up }
