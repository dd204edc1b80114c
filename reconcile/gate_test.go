// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGateLetsProbesThroughAndOpensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		roused := 0
		g := newGate(func(closed bool) { told = append(told, closed) }, func() { roused++ })
		ctx, cancel := context.WithCancel(t.Context())
		passed := make(chan struct{}, 100)
		const workers = 4
		for range workers {
			go func() {
				for ctx.Err() == nil {
					g.wait(ctx)
					passed <- struct{}{}
					<-ctx.Done() // each passes once in this test
				}
			}()
		}
		synctest.Wait()
		if len(passed) != workers {
			t.Fatalf("an open gate let %d of %d through", len(passed), workers)
		}
		for range gateFailures - 1 {
			g.missed(false)
		}
		if len(told) != 0 {
			t.Fatal("closed too early")
		}
		g.missed(false)
		if len(told) != 1 || !told[0] {
			t.Fatalf("told %v, want that it closed", told)
		}
		for range workers {
			go func() { g.wait(ctx); passed <- struct{}{} }()
		}
		synctest.Wait()
		before := len(passed)
		time.Sleep(gateFirst + time.Millisecond)
		synctest.Wait()
		if n := len(passed) - before; n != 1 {
			t.Fatalf("%d probes after %v, want 1", n, gateFirst)
		}
		g.missed(true)
		time.Sleep(2*gateFirst + time.Millisecond)
		synctest.Wait()
		if n := len(passed) - before; n != 2 {
			t.Fatalf("%d probes after a second failure, want 2", n)
		}
		g.reached()
		synctest.Wait()
		if n := len(passed) - before; n != workers {
			t.Fatalf("%d passed the open gate, want %d", n, workers)
		}
		if len(told) != 2 || told[1] {
			t.Fatalf("told %v, want that it opened", told)
		}
		if roused != 2 {
			t.Errorf("a key was asked for %d times, want once a probe", roused)
		}
		g.stop()
		cancel()
	})
}

func TestGateClosesAtOnceWhenNobodyIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := false
		g := newGate(func(c bool) { closed = c }, func() {})
		g.missed(true)
		if !closed {
			t.Error("a refused connection did not close the gate")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.wait(ctx) // does not block
		g.stop()
	})
}

// A server that has just started denies everything for a moment. The gate waits for
// it, but not for ever: a right may be missing for good.
func TestGateWaitsForAServerThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(func(bool) {}, func() {})
		g.denied()
		if g.shut() {
			t.Fatal("a denial closed an open gate")
		}
		g.missed(true)
		start := time.Now()
		for g.shut() {
			if !g.wait(t.Context()) {
				t.Fatal("it opened while nobody said anything")
			}
			g.denied()
		}
		if took := time.Since(start); took < gateStarting || took > gateStarting+2*gateFirst {
			t.Errorf("denials kept it closed for %v, want %v", took, gateStarting)
		}

		g.missed(true)
		g.wait(t.Context())
		g.denied()
		g.wait(t.Context())
		g.reached()
		if g.shut() {
			t.Error("it stays closed although the server took something")
		}

		g.missed(true)
		g.denied()
		g.missed(false)
		time.Sleep(gateStarting)
		g.denied()
		if !g.shut() {
			t.Error("what it answered before it went away again counts")
		}
		g.stop()
	})
}
