// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"testing"
	"time"
)

// TestR06HalfOpen lets the network lose what a member answers, on an idle
// cluster: everything at first, then only what belongs to open connections, as
// when a balancer has forgotten them.
func TestR06HalfOpen(t *testing.T) {
	w := newWorld(t, "r06")
	w.service("web", 4, w.a, w.b)
	relay := w.relayTo(w.a)
	w.start()
	w.converges(10 * time.Second)

	blind, quiet := w.blind(w.a), w.quiet()
	relay.Hold(Down)
	down := w.reportsDown(w.a.Name(), 10*time.Second)
	quiet.End()
	w.pods(w.a, "web", 100, 2)
	w.must(w.a.Remove(t.Context(), w.ns, "web-0"))
	relay.Heal()
	back := w.converges(5 * time.Second)
	blind.End()
	w.reportsUp(w.a.Name(), 10*time.Second)

	blind = w.blind(w.a)
	relay.Lose()
	w.pods(w.a, "web", 200, 2)
	again := w.converges(10 * time.Second)
	blind.End()
	w.reportsUp(w.a.Name(), 10*time.Second)
	t.Logf("reported down after %s; converged %s after the network healed; found lost connections and converged after %s", down, back, again)
	w.judge()
}
