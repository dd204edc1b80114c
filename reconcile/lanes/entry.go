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
	// that the key was with, takenAt is when this one took it, place what it holds.
	working    batch
	generation uint64
	takenAt    time.Time
	place      place
	// failures in a row, and the end of the last failed attempt.
	failures int
	failedAt time.Time
	// news is true when a cluster told more since a worker took the key, lost when that was
	// a removal.
	news, lost bool
	// interrupt, unless nil, is called when a cluster tells of a removal while a worker
	// has the key.
	interrupt func()
	// told is called when it tells of anything.
	told func()
	// asked is true when the due time was set by the server's Retry-After.
	asked bool
	due   node
	// late is true when the last request for the key was not answered in time; bulkhead is
	// that in whose line it stands, or whose place it has; nil: it is not apart.
	late     bool
	bulkhead *bulkhead
	// ready is the place in line, in the heap that in points to; in is nil but in state
	// ready.
	ready      node
	in         *heap
	readySince time.Time
}

func newEntry(key syncer.Key) *entry {
	e := &entry{key: key, due: node{index: absent}, ready: node{index: absent}}
	e.due.entry, e.ready.entry = e, e
	return e
}

type state uint8

const (
	stateReady   state = iota // in line
	stateWaiting              // in backoff
	stateWorking              // with a worker
)

// place is what a key with a worker takes up: that of the lane in which it is written,
// or one of these.
type place uint8

const (
	// comparing: what it would write is being computed.
	comparing place = laneCount + iota
	// apartRemoval and apartOther: it goes through a bulkhead.
	apartRemoval
	apartOther

	placeCount = int(apartOther) + 1
)
