// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tributary.dev/tributary/reconcile/lanes"
)

// Bulk work computes in fewer places than there are processors; a live change
// computes whatever goes on.
func TestBulkWorkLeavesAProcessorFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reconciler{queue: lanes.New(lanes.Options{}), thinkers: make(chan struct{}, 3)}
		var thinking atomic.Int32
		release := make(chan struct{})
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				r.think(context.Background(), lanes.Bulk, func() { thinking.Add(1); <-release })
			})
		}
		synctest.Wait()
		if n := thinking.Load(); n != 3 {
			t.Errorf("%d compute at once, want 3", n)
		}
		done := false
		r.think(context.Background(), lanes.Removal, func() { done = true })
		if !done {
			t.Error("a removal did not compute")
		}
		close(release)
		group.Wait()
		if n := thinking.Load(); n != 10 {
			t.Errorf("%d have computed, want 10", n)
		}
	})
}
