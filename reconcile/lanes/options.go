// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// Options set up a Queue. The zero value is usable: 24 workers, 12 of them at
// most in bulk work and 4 beside live changes, 6 reserved for removals.
type Options struct {
	// Workers is how many goroutines call Get, substitutes of stalled ones aside. 0
	// means 24.
	Workers int
	// BulkMax is how many keys of the bulk lane may be in work at once while nothing
	// else is: enough to keep an API server busy. At least 1, at most Workers-1 (with
	// one worker: 1). 0 means half of Workers.
	BulkMax int
	// BulkBeside is the same for the time of live changes: few enough that the API
	// server's queues stay short for them. At least 1, at most BulkMax. 0 means a
	// third of BulkMax.
	BulkBeside int
	// Reserve is how many workers only removals may use: bulk and additions
	// together never hold more than Workers-Reserve. 0 means a quarter of
	// Workers; with one worker nothing can be reserved.
	Reserve int
	// Stalls is how many keys may be with stalled workers; see Queue.Stall. 0 means
	// three times Workers.
	Stalls  int
	Backoff Backoff
	// Observer is told what happens; nil: nobody is.
	Observer Observer
}

// Observer receives the queue's counts. It is called from the goroutine that
// called the Queue, without a lock held; it must be safe for concurrent use.
// Depth and age are read from the Queue instead (Len, OldestAge).
type Observer interface {
	// Added: a cause was accepted for the lane.
	Added(Lane)
	// Retried: a key failed and returns to the lane after the delay.
	Retried(Lane, time.Duration)
	// Taken: a worker took a key that had been ready in the lane for so long.
	Taken(Lane, time.Duration)
}

func (o Options) withDefaults() Options {
	o.Backoff = o.Backoff.withDefaults()
	if o.Workers <= 0 {
		o.Workers = 24
	}
	if o.BulkMax <= 0 {
		o.BulkMax = o.Workers / 2
	}
	if o.Reserve <= 0 {
		o.Reserve = max(1, o.Workers/4)
	}
	if o.Stalls <= 0 {
		o.Stalls = 3 * o.Workers
	}
	o.Reserve = min(o.Reserve, o.Workers-1)
	o.BulkMax = max(1, min(o.BulkMax, o.Workers-1, o.Workers-o.Reserve))
	if o.BulkBeside <= 0 {
		o.BulkBeside = o.BulkMax / 3
	}
	o.BulkBeside = max(1, min(o.BulkBeside, o.BulkMax))
	return o
}
