// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"testing"
	"time"
)

// TestR01Killed kills tributary at random moments under churn. Nothing is lost,
// only what changed is written, and the replicas of Services that went meanwhile
// are collected.
func TestR01Killed(t *testing.T) {
	w := newWorld(t, "r01")
	ctx := t.Context()
	a, b := NewChurn(w.a, w.ns, 6, 40, w.seed), NewChurn(w.b, w.ns, 6, 40, w.seed+1)
	w.must(a.Fill(ctx))
	w.must(b.Fill(ctx))
	w.start()
	stop := w.churn(20*time.Millisecond, a, b)
	kills := size(10, 100)
	for range kills {
		// From before it has listed anything to long after it is ready.
		w.pause(time.Duration(w.dice.Int64N(int64(1200 * time.Millisecond))))
		w.kill()
		w.must(w.proc.Start(ctx))
		w.down.End()
	}
	w.kill()
	stop()
	w.must(w.proc.Start(ctx))
	w.ready()
	took := w.converges(5 * time.Second)
	t.Logf("%d kills; %d changes by churn; converged %s after it was ready", kills, a.Done+b.Done, took)
	w.unchanged()
	w.judge()
}

// unchanged restarts tributary with nothing changed: nothing is written. What it still
// has to write comes first: a slice without addresses may be left to delete when all
// consumers see the same.
func (w *world) unchanged() {
	w.Helper()
	w.settled()
	w.kill()
	quiet := w.quiet()
	w.restart()
	w.pause(time.Second)
	quiet.End()
}
