// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"slices"
	"testing"
	"time"
)

// TestR24RemovedFromConfiguration takes a member out of the configuration. What
// it gave stays, across a restart and whatever happens in the member; the other
// goes on. Put back, it is followed again.
func TestR24RemovedFromConfiguration(t *testing.T) {
	w := newWorld(t, "r24")
	ctx := t.Context()
	w.service("web", 4, w.a, w.b)
	w.service("only-a", 3, w.a)
	w.start()
	w.converges(10 * time.Second)
	members := slices.Clone(w.config.members)

	blind, quiet := w.blind(w.a), w.quiet()
	w.config.drop(w.a.Name())
	w.must(w.config.write())
	w.follows(w.b.Name())
	w.must(w.a.Remove(ctx, w.ns, "web-0"))
	w.pause(2 * time.Second)
	quiet.End()
	w.seen(w.b, "while-removed")
	w.unchanged()
	w.seen(w.b, "after-restart")
	w.eventually(5*time.Second, w.counts("web", 10))
	w.eventually(5*time.Second, w.counts("only-a", 3))

	w.config.members = members
	w.must(w.config.write())
	w.follows(w.a.Name(), w.b.Name())
	took := w.converges(10 * time.Second)
	blind.End()
	t.Logf("converged %s after it was put back", took)
	w.judge()
}
