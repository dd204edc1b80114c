// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"slices"
	"time"
)

// SetAway says whether the server that keys are for is away. While it is, keys are
// compared and wait in their lanes, and one is written only to try (RetryNow). When it
// is back all backoffs end, but for the floor and what servers asked for, and failures
// are forgotten: those of that time tell nothing about a key, and an urgent one that was
// tried must not be the last for it.
func (q *Queue) SetAway(away bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	back := q.away && !away
	q.away, q.trial = away, q.trial && away
	for _, e := range q.entries {
		if back {
			e.failures = 0
		}
		q.lockedCount(e)
	}
	if !back {
		return
	}
	q.lockedRetryAll()
}

// RetryAll ends all backoffs, but for the floor and what servers asked for. What has failed
// counts on: what fails once more waits for longer than before.
func (q *Queue) RetryAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lockedRetryAll()
}

func (q *Queue) lockedRetryAll() {
	now := time.Now()
	waiting := slices.SortedFunc(slices.Values(q.backoff), func(a, b *node) int { return a.at.Compare(b.at) })
	for _, n := range waiting {
		if !n.entry.asked {
			q.lockedRetryNow(n.entry, now)
		}
	}
	q.lockedDispatch()
}

// RetryNow lets one key be written although the server is away, to find out. If none
// is in line, the backoff of the one that is due first ends, but for the floor, however
// long they all have failed. any is false when no key waits for the server.
func (q *Queue) RetryNow() (any bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.trial = q.away
	defer q.lockedDispatch()
	for _, lane := range lanes {
		if len(q.judged[lane])+len(q.fresh[lane]) > 0 {
			return true
		}
	}
	for _, b := range q.bulkheads {
		if len(b.line) > 0 {
			return true
		}
	}
	var first *node
	for _, n := range q.backoff {
		if !n.entry.asked && (first == nil || n.at.Before(first.at)) {
			first = n
		}
	}
	if first != nil {
		q.lockedRetryNow(first.entry, time.Now())
	}
	return len(q.entries) > 0
}
