// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"runtime"
	"time"
)

// Options set up a Queue. The zero value is usable.
type Options struct {
	// Workers is how many removals are written at once, those that are not answered
	// aside. 0 means 24.
	Workers int
	// Most is how many other keys are written at once, and how many requests for them
	// are under way, at most: what of that is used follows the measured time of
	// requests. 0 means twice Workers: the more a server has at once, the less each costs
	// it (e2e/scale, TestColdFill). The first removal after a calm finds them under way.
	Most int
	// Compare is how many keys are compared at once that are not known to be removals.
	// 0 means one processor less than there are, and at least one: a comparison of
	// thousands is nothing but computing, and if it took every processor, whatever the
	// network brings would wait. The runtime asks for that when a processor is idle,
	// and every 10 ms otherwise, and a removal crosses the network four times.
	Compare int
	// QPS is the mean number of requests a second; 0: no limit. Burst is how many may be
	// sent at once before QPS holds them back; at least 1.
	QPS     float64
	Burst   int
	Backoff Backoff
	// Observer is told what happens; nil: nobody is.
	Observer Observer
}

// Observer receives the queue's counts. It is called from the goroutine that
// called the Queue, without a lock held; it must be safe for concurrent use.
// Depth and age are read from the Queue instead (States, OldestArrivals).
type Observer interface {
	// Added: a cause was accepted for the lane.
	Added(Lane)
	// Retried: a key failed and returns to the lane after the delay.
	Retried(Lane, time.Duration)
	// Taken: a key of the lane has ended that had been in line for so long before a
	// worker took it.
	Taken(Lane, time.Duration)
}

func (o Options) withDefaults() Options {
	o.Backoff = o.Backoff.withDefaults()
	if o.Workers <= 0 {
		o.Workers = 24
	}
	if o.Most <= 0 {
		o.Most = 2 * o.Workers
	}
	if o.Compare <= 0 {
		o.Compare = max(1, runtime.GOMAXPROCS(0)-1)
	}
	return o
}
