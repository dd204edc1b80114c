// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// Outcome is what became of a request, for those that follow.
type Outcome uint8

// The outcomes.
const (
	// Measured: it was answered in the time that it needs.
	Measured Outcome = iota
	// Congested: the server has too much to do, or did not answer in time.
	Congested
	// Unmeasured: its time tells nothing.
	Unmeasured
)

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
	// shrinkMost bounds one step down, shrinkRefused is that after a refusal.
	shrinkMost    = 0.75
	shrinkRefused = 0.5
	// smoothing is the weight of one answer in the moving mean.
	smoothing = 1.0 / 16
	// growth is how many requests more a round of answers allows.
	growth = 0.5
)

func newCongestion(most int, tolerance float64) congestion {
	return congestion{most: float64(most), tolerance: tolerance, window: min(startWindow, float64(most)), ratio: 1}
}

// limit is how many requests may be under way; at least 1.
func (c *congestion) limit() int { return int(max(1, c.window)) }

// answered takes one measurement: took against what one takes undisturbed. full is true
// when the window was used up, for one that is not used tells nothing about a wider one.
func (c *congestion) answered(took, alone time.Duration, full bool) {
	ratio := float64(took) / float64(max(alone, time.Microsecond))
	c.ratio += (min(ratio, 8*c.tolerance) - c.ratio) * smoothing
	c.left--
	switch {
	case c.ratio > c.tolerance:
		c.shrink(max(shrinkMost, c.tolerance/c.ratio))
	case full && !c.settled:
		c.window = min(c.most, c.window+1)
	case full:
		c.window = min(c.most, c.window+growth/c.window)
	}
}

// refused takes an answer that says the server has too much to do, or the lack of one.
func (c *congestion) refused() {
	c.left--
	c.shrink(shrinkRefused)
}

// shrink makes the window smaller, once in each round of answers.
func (c *congestion) shrink(factor float64) {
	if c.left > 0 {
		return
	}
	c.settled = true
	c.window = max(1, c.window*factor)
	c.ratio = min(c.ratio, c.tolerance) // what comes is measured anew
	c.left = c.limit()
}

// undisturbed is how long a request takes while there is no other: a moving low quantile.
// It follows shorter times soon, and longer ones over hundreds of requests, and those only
// where there was no other, for what many at once take is no measure of what one would. So
// it is not ruled by one lucky answer; a storm, in which whatever else loads the server
// makes each request slower, does not make it forget what is possible; and a server that
// has become slower is believed.
type undisturbed struct {
	mean float64
}

const (
	fallRate = 0.25
	riseRate = 1.0 / 256
)

// add takes a measurement; alone says that few others, if any, were under way.
func (u *undisturbed) add(took time.Duration, alone bool) time.Duration {
	t := float64(took)
	switch {
	case u.mean == 0:
		u.mean = t
	case t < u.mean:
		u.mean += (t - u.mean) * fallRate
	case alone:
		u.mean += (min(t, 4*u.mean) - u.mean) * riseRate
	}
	return time.Duration(u.mean)
}
