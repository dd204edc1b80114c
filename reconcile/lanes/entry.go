// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"time"

	"tributary.dev/tributary/syncer"
)

// entry is one key's life in the queue.
type entry struct {
	key   syncer.Key
	state state
	// pending is what the next attempt is for; empty unless pending.enqueued is set.
	pending batch
	// working is what a worker holds; only in state working. turn counts the workers
	// that the key was with, takenAt is when this one took it, stalled says that it has
	// no place among the busy.
	working batch
	turn    uint64
	takenAt time.Time
	stalled bool
	// failures in a row, and the end of the last failed attempt.
	failures int
	failedAt time.Time
	// news is true when a cluster told more since a worker took the key.
	news bool
	// asked is true when the due time was set by the server's Retry-After.
	asked bool
	due   node
	// place in the lane; only in state ready.
	prev, next *entry
	readySince time.Time
}

type state uint8

const (
	stateReady   state = iota // in a lane
	stateWaiting              // in backoff
	stateWorking              // with a worker
)
