// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"time"
)

// epoch is when every simulation begins.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// schedule is what is to happen, in the order of virtual time. Of what happens at the same
// moment comes first what was planned first.
type schedule struct {
	now    time.Duration // since epoch
	heap   []task
	serial uint64
	steps  int
}

type task struct {
	at     time.Duration
	serial uint64
	run    func()
}

func (t *task) before(o *task) bool { return t.at < o.at || t.at == o.at && t.serial < o.serial }

// time is the present as a world's true clock shows it.
func (s *schedule) time() time.Time { return epoch.Add(s.now) }

// after has something happen after a while.
func (s *schedule) after(d time.Duration, run func()) {
	s.serial++
	s.heap = append(s.heap, task{s.now + max(0, d), s.serial, run})
	for at := len(s.heap) - 1; at > 0; {
		up := (at - 1) / 2
		if !s.heap[at].before(&s.heap[up]) {
			break
		}
		s.heap[at], s.heap[up] = s.heap[up], s.heap[at]
		at = up
	}
}

// step has the next thing happen, if there is one not later than a moment.
func (s *schedule) step(until time.Duration) bool {
	if len(s.heap) == 0 || s.heap[0].at > until {
		return false
	}
	next, last := s.heap[0], len(s.heap)-1
	s.heap[0], s.heap[last] = s.heap[last], task{}
	s.heap = s.heap[:last]
	for at := 0; ; {
		down := 2*at + 1
		if down+1 < last && s.heap[down+1].before(&s.heap[down]) {
			down++
		}
		if down >= last || !s.heap[down].before(&s.heap[at]) {
			break
		}
		s.heap[at], s.heap[down] = s.heap[down], s.heap[at]
		at = down
	}
	s.now = next.at
	s.steps++
	next.run()
	return true
}

// rng are the random numbers of one part of a world: what one part throws changes nothing for
// another, so that a script that is made shorter still means the same.
type rng struct{ *rand.Rand }

func newRNG(seed uint64, part string) rng {
	sum := uint64(14695981039346656037)
	for _, b := range []byte(part) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return rng{rand.New(rand.NewPCG(seed, sum))}
}

// within throws a duration between two.
func (d rng) within(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64(most-least)+1))
}

// chance is true that many times in a hundred.
func (d rng) chance(percent int) bool { return d.IntN(100) < percent }
