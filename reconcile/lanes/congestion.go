// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// congestion decides how many requests may be under way at once from how long they
// take, as congestion control does in networks: one more after each round that was no
// slower than is tolerated, fewer at once when it was. It is a function of what it is
// told; the caller holds the lock.
type congestion struct {
	// most bounds the window, tolerance is how many times as long as an undisturbed
	// one a request may take.
	most, tolerance float64
	window          float64
	// ratio is the moving mean of how much longer requests took; settled is set once
	// the window had to shrink, until then it doubles with each round.
	ratio   float64
	settled bool
	// left counts the answers until the window may shrink again.
	left int
}

const (
	// startWindow is how many requests are under way before anything was measured.
	startWindow = 4
	// shrinkMost bounds one step down.
	shrinkMost = 0.5
	// smoothing is the weight of one answer in the moving mean.
	smoothing = 0.125
)

func newCongestion(most int, tolerance float64) congestion {
	return congestion{most: float64(most), tolerance: tolerance, window: min(startWindow, float64(most)), ratio: 1}
}

// limit is how many requests may be under way; at least 1.
func (c *congestion) limit() int { return int(max(1, c.window)) }

// answered takes one measurement: took against the shortest lately. full is true when
// the window was used up, for one that is not used tells nothing about a wider one.
func (c *congestion) answered(took, shortest time.Duration, full bool) {
	ratio := float64(took) / float64(max(shortest, time.Microsecond))
	c.ratio += (min(ratio, 8*c.tolerance) - c.ratio) * smoothing
	c.left--
	switch {
	case c.ratio > c.tolerance:
		c.shrink(max(shrinkMost, c.tolerance/c.ratio))
	case full && !c.settled:
		c.window = min(c.most, c.window+1)
	case full:
		c.window = min(c.most, c.window+1/c.window)
	}
}

// refused takes an answer that says the server has too much to do, or the lack of one.
func (c *congestion) refused() {
	c.left--
	c.shrink(shrinkMost)
}

// shrink makes the window smaller, once in each round of answers.
func (c *congestion) shrink(factor float64) {
	if c.left > 0 {
		return
	}
	c.settled = true
	c.window = max(1, c.window*factor)
	c.left = c.limit()
}

// shortest is the least time that a request took lately: in this span of time or the
// one before, so that a server which became slower for good is believed in the end.
type shortest struct {
	least, before time.Duration
	since         time.Time
}

const shortestSpan = time.Minute

func (s *shortest) add(took time.Duration, now time.Time) time.Duration {
	if s.least == 0 || now.Sub(s.since) >= shortestSpan {
		s.before, s.least, s.since = s.least, took, now
	}
	s.least = min(s.least, took)
	if s.before == 0 {
		return s.least
	}
	return min(s.least, s.before)
}
