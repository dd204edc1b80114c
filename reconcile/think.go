// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"runtime"

	"tributary.dev/tributary/reconcile/lanes"
)

// A look at thousands of replicas of which none needs a write is nothing but
// computing. If it took every processor, whatever the network brings would wait: the
// runtime asks for that when a processor is idle, and every 10 ms otherwise, and a
// removal crosses the network four times. So bulk work leaves one processor free.

// newThinkers returns a place for everyone who may compute bulk work at once.
func newThinkers() chan struct{} {
	return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))
}

// think computes. For a bulk key it waits for a place, and for live changes before
// that, which need the processors more.
func (r *Reconciler) think(ctx context.Context, lane lanes.Lane, compute func()) {
	if lane != lanes.Bulk {
		compute()
		return
	}
	r.queue.Yield(ctx, lane)
	r.beside(compute)
}

// beside computes in one of the places for bulk work.
func (r *Reconciler) beside(compute func()) {
	r.thinkers <- struct{}{}
	compute()
	<-r.thinkers
}
