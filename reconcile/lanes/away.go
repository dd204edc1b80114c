// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"time"
)

// SetAway says whether the server that keys are for is away. While it is, keys come
// back from backoff by time or by Rouse: whoever tries a few of them, to find out,
// shall try others than the one with the most events. When it is back all backoffs end,
// but for the floor and what servers asked for, and failures are forgotten: those of
// that time tell nothing about a key, and an urgent one that was tried must not be the
// last for it.
func (q *Queue) SetAway(away bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	back := q.away && !away
	q.away = away
	if !back {
		return
	}
	for _, e := range q.entries {
		e.failures = 0
	}
	now := time.Now()
	waiting := slices.SortedFunc(slices.Values(q.backoff), func(a, b *node) int { return a.at.Compare(b.at) })
	for _, n := range waiting {
		if !n.entry.asked {
			q.lockedHasten(n.entry, now)
		}
	}
	q.lockedDispatch()
}

// Rouse ends the backoff, but for the floor, of the key that is due first, if none is
// ready: who wants to try one shall find one, however long they all have failed.
func (q *Queue) Rouse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, lane := range lanes {
		if q.ready[lane].head != nil {
			return
		}
	}
	var first *node
	for _, n := range q.backoff {
		if !n.entry.asked && (first == nil || n.at.Before(first.at)) {
			first = n
		}
	}
	if first != nil {
		q.lockedHasten(first.entry, time.Now())
		q.lockedDispatch()
	}
}
