// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// State is how a lane stands at one moment.
type State struct {
	// Depth counts the keys that wait, for a worker or in backoff.
	Depth int
	// Working counts the keys that a worker holds, stalled or not.
	Working int
	// Oldest is the longest time for which a key has been dirty without success: it
	// waits, is in backoff, or is with a worker.
	Oldest time.Duration
	// Unfinished is how long workers have held their keys, in sum; Longest is the
	// longest of these times.
	Unfinished, Longest time.Duration
}

// States returns the state of each lane. A key counts for the lane that its causes ask
// for; one that became dirty again while a worker holds it counts for both. It looks at
// every dirty key.
func (q *Queue) States() map[Lane]State {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var states [laneCount]State
	for _, e := range q.entries {
		if b := &e.pending; !b.enqueued.IsZero() {
			s := &states[b.lane]
			s.Depth++
			s.Oldest = max(s.Oldest, now.Sub(b.enqueued))
		}
		if e.state == stateWorking {
			s, held := &states[e.working.lane], now.Sub(e.takenAt)
			s.Working++
			s.Oldest = max(s.Oldest, now.Sub(e.working.enqueued))
			s.Unfinished += held
			s.Longest = max(s.Longest, held)
		}
	}
	all := make(map[Lane]State, laneCount)
	for _, lane := range lanes {
		all[lane] = states[lane]
	}
	return all
}
