// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"testing"
	"time"
)

// TestR05MemberFrozen freezes the API server of a member: its connections stay
// open and nothing answers. That is reported, its endpoints stay as they were,
// the other member notices nothing, and afterwards everything converges.
func TestR05MemberFrozen(t *testing.T) {
	w := newWorld(t, "r05")
	w.service("web", 6, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)

	blind := w.blind(w.a)
	w.must(w.a.APIServer().Freeze())
	down := w.reportsDown(w.a.Name(), 10*time.Second)
	var slowest time.Duration
	for i := range size(5, 50) {
		slowest = max(slowest, w.seen(w.b, fmt.Sprintf("while-frozen-%d", i)))
	}
	w.must(w.a.APIServer().Thaw())
	w.pods(w.a, "web", 100, 3)
	back := w.converges(5 * time.Second)
	blind.End()
	w.reportsUp(w.a.Name(), 10*time.Second)
	t.Logf("reported down after %s; the other member's slowest pod took %s; converged %s after the thaw", down, slowest, back)
	w.judge()
}
