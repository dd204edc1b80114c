// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// State is how a lane stands at one moment.
type State struct {
	// Depth counts the keys that wait, for a worker or in backoff. Those that fail alone
	// (FailsAlone) are not among them, nor is their age.
	Depth int
	// Working counts the keys that a worker holds.
	Working int
	// Oldest is the longest time for which a key has been dirty without success: it
	// waits, is in backoff, or is with a worker.
	Oldest time.Duration
	// Unfinished is how long workers have held their keys, in sum; Longest is the
	// longest of these times.
	Unfinished, Longest time.Duration
}

// States returns the state of each lane. A key counts for the lane that its difference
// asks for, or its causes where that has not been computed; one that became dirty again
// while a worker holds it counts for both. The cost does not grow with the keys that
// wait.
func (q *Queue) States() map[Lane]State {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	var states [laneCount]State
	for e := range q.working {
		s, held := &states[e.working.lane], now.Sub(e.takenAt)
		s.Working++
		if age := e.working.age; age == nil || age.index == absent {
			s.Depth++
		}
		s.Unfinished += held
		s.Longest = max(s.Longest, held)
	}
	all := make(map[Lane]State, laneCount)
	for _, lane := range lanes {
		s := &states[lane]
		s.Depth += len(q.ages[lane]) - s.Working
		if first := q.ages[lane].first(); first != nil {
			s.Oldest = now.Sub(first.at)
		}
		all[lane] = *s
	}
	return all
}

// lockedAge puts a batch into a lane, as old as it is.
func (q *Queue) lockedAge(b *batch, lane Lane) {
	if b.age == nil {
		b.age = &node{at: b.enqueued, index: absent}
	} else if b.age.index != absent {
		if b.lane == lane {
			return
		}
		q.ages[b.lane].remove(b.age)
	}
	b.lane = lane
	q.ages[lane].push(b.age)
}

// lockedForgetAge takes a batch out of its lane.
func (q *Queue) lockedForgetAge(b *batch) {
	if b.age != nil && b.age.index != absent {
		q.ages[b.lane].remove(b.age)
	}
	b.age = nil
}
