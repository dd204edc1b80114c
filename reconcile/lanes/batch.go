// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// maxCauses bounds what one key remembers, and maxQuiet how many of them may be no
// live ones: a change record names what caused it, so that every address of a burst
// has its story, but memory must be bounded by the number of keys alone, and a first
// fill or a list makes thousands of causes of which one says as much as all.
const (
	maxCauses = 32
	maxQuiet  = 8
)

// Item is a key handed to a worker, with everything that made it dirty.
type Item struct {
	Key syncer.Key
	// Lane is what the key was taken for; Admit says what it is.
	Lane Lane
	// Causes are at most 32, in order of arrival in the queue; live ones are kept
	// in preference, others only among the first 8. Treat as read-only.
	Causes []record.Cause
	// Dropped counts the causes beyond those kept.
	Dropped int
	// Attempt counts the failures of the key since its last success.
	Attempt int
	// Trial is true where the key may be written although the server is away.
	Trial bool

	generation uint64
}

// batch is the merged wish for one key: what waits, or what a worker holds.
type batch struct {
	// lane is what the difference asks for where judged is true, else the most urgent
	// of what the causes ask for.
	lane     Lane
	judged   bool
	causes   []record.Cause
	dropped  int
	enqueued time.Time
	// stamps hold the earliest arrival per cluster, one node in that cluster's
	// lag heap each.
	stamps []*node
	// age is the place among the batches of its lane.
	age *node
}

// absorb merges a cause.
func (b *batch) absorb(cause record.Cause, now time.Time) {
	if b.enqueued.IsZero() {
		b.enqueued = now
	}
	b.keep(cause)
}

func (b *batch) keep(cause record.Cause) {
	if len(b.causes) < maxQuiet || cause.Live && len(b.causes) < maxCauses {
		b.causes = append(b.causes, cause)
		return
	}
	b.dropped++
	if at := b.dispensable(&cause); at >= 0 {
		b.causes = append(slices.Delete(b.causes, at, at+1), cause)
	}
}

// dispensable is the place of a cause that another one may take, or -1. Latency is
// computed from live causes only, so each of them is let in for one that is not; and of
// each event one is kept, so that a mixture is not taken for less than it is.
func (b *batch) dispensable(cause *record.Cause) (at int) {
	at = -1
	counts := map[string]int{}
	for i := range b.causes {
		c := &b.causes[i]
		counts[c.Event]++
		if !c.Live && (cause.Live && at < 0 || !cause.Live && counts[c.Event] > 1) {
			at = i
		}
	}
	if !cause.Live && counts[cause.Event] > 0 {
		return -1
	}
	return at
}

// join puts an older batch (a failed attempt's) before this one.
func (b *batch) join(older batch) {
	if b.enqueued.IsZero() {
		stamps := b.stamps
		*b = older
		b.stamps, b.age = stamps, nil
		return
	}
	newer := b.causes
	b.lane, b.judged = min(b.lane, older.lane), false
	if older.enqueued.Before(b.enqueued) {
		b.enqueued = older.enqueued
	}
	b.causes, b.dropped = older.causes, b.dropped+older.dropped
	for _, cause := range newer {
		b.keep(cause)
	}
}
