// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/e2e/history"
)

// standby runs a second process of the installation and waits until it is ready.
func (w *world) standby() *fleet.Tributary {
	w.Helper()
	second := w.config
	second.path = filepath.Join(w.dir, "standby.yaml")
	port, err := cluster.FreePort()
	w.must(err)
	second.listen = fmt.Sprintf("127.0.0.1:%d", port)
	w.must(second.write())
	p := fleettest.RunTributary(w.T, fleet.TributaryOptions{Config: second.path, Env: w.env})
	w.must(p.WaitReady(w.Context()))
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the standby, last lines:\n%s", p.Tail(40))
		}
	})
	return p
}

// state waits until a process says that it leads, or that it is on standby.
func (w *world) state(p *fleet.Tributary, want string, limit time.Duration) {
	w.Helper()
	fleettest.Eventually(w.T, w.within(limit), func(ctx context.Context) error {
		body, err := p.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct {
			Leader struct{ State, Holder string } `json:"leader"`
		}
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		if status.Leader.State != want {
			return fmt.Errorf("it is %q, want %q; %q holds the Lease", status.Leader.State, want, status.Leader.Holder)
		}
		return nil
	})
}

// lease is the leader's Lease.
func (w *world) lease() (*coordinationv1.Lease, error) {
	return w.ingress.Client.CoordinationV1().Leases(own).Get(w.Context(), "tributary-leader.default", metav1.GetOptions{})
}

// TestR02LeaderKilled kills the leader with a warm standby beside it: the standby takes
// over within the Lease. A leader that is told to end hands over within two seconds. What
// does not change is not written for any of that.
func TestR02LeaderKilled(t *testing.T) {
	w := newWorld(t, "r02")
	ctx := t.Context()
	a, b := NewChurn(w.a, w.ns, 6, 40, w.seed), NewChurn(w.b, w.ns, 6, 40, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.start()
	w.state(w.proc, "leading", 5*time.Second)
	second := w.standby()
	w.state(second, "standby", 5*time.Second)
	w.settled()

	// Told to end, and nothing changed: the other leads within two seconds, and writes nothing.
	quiet := w.quiet()
	first := w.proc
	stopping, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- first.Stop(stopping) }()
	w.state(second, "leading", 2*time.Second)
	t.Logf("handed over %s after SIGTERM", time.Since(began))
	w.must(<-ended)
	w.pause(time.Second)
	quiet.End()

	// Killed under churn.
	w.must(first.Start(ctx))
	w.must(first.WaitReady(ctx))
	w.state(first, "standby", 5*time.Second)
	stop := w.churn(20*time.Millisecond, a, b)
	w.proc = second
	w.kill()
	killed := time.Now()
	w.state(first, "leading", 12*time.Second)
	t.Logf("took over %s after SIGKILL", time.Since(killed))
	w.down.End()
	w.proc = first
	stop()
	took := w.converges(5 * time.Second)
	t.Logf("converged after %s", took)

	// One that is alone waits for nothing: the Lease is its own.
	w.settled()
	w.kill()
	killed = time.Now()
	w.restart()
	w.state(first, "leading", 3*time.Second)
	t.Logf("led again %s after SIGKILL", time.Since(killed))
	w.judge()
}

// TestR03LeaderFrozen freezes the leader under churn until the standby has taken over,
// and lets it go on: it writes nothing, and stays on standby.
func TestR03LeaderFrozen(t *testing.T) {
	w := newWorld(t, "r03")
	ctx := t.Context()
	a, b := NewChurn(w.a, w.ns, 6, 40, w.seed), NewChurn(w.b, w.ns, 6, 40, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.start()
	w.state(w.proc, "leading", 5*time.Second)
	first, second := w.proc, w.standby()
	w.state(second, "standby", 5*time.Second)
	stop := w.churn(5*time.Millisecond, a, b)
	for range size(2, 6) {
		w.pause(time.Duration(w.dice.Int64N(int64(700 * time.Millisecond))))
		w.down = w.rec.Begin(history.ProductDown, "")
		w.must(first.Freeze())
		w.state(second, "leading", 12*time.Second)
		w.down.End()
		lease, err := w.lease()
		w.must(err)
		w.must(first.Thaw())
		w.pause(3 * time.Second)
		after, err := w.lease()
		w.must(err)
		if *lease.Spec.HolderIdentity != *after.Spec.HolderIdentity {
			w.Errorf("the Lease went from %s to %s", *lease.Spec.HolderIdentity, *after.Spec.HolderIdentity)
		}
		w.state(first, "standby", 5*time.Second)
		first, second = second, first
	}
	w.proc = first
	stop()
	took := w.converges(5 * time.Second)
	t.Logf("converged after %s", took)
	w.judge()
}
