// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math/rand/v2"
	"time"
)

// backoff doubles a delay up to a cap. Half of each delay is random, so that
// the loops of many members do not come back in step.
type backoff struct {
	base, limit time.Duration
	step        time.Duration
}

// next returns the delay to wait now, between half of the step and the step.
func (b *backoff) next() time.Duration {
	if b.step == 0 {
		b.step = b.base
	}
	d := b.step/2 + rand.N(b.step/2+1)
	b.step = min(2*b.step, b.limit)
	return d
}

func (b *backoff) reset() { b.step = 0 }

// pacer bounds how much of the time goes into lists: after one that took d, the
// next waits at least share*d, and at least a backoff delay when lists follow
// each other. A server that answers every watch with 410 therefore costs at most
// 1/(share+1) of a core and a list each few seconds. The first list after a quiet
// while waits for nothing.
type pacer struct {
	backoff  backoff
	share    int
	quiet    time.Duration
	last     time.Time
	cost     time.Duration
	earliest time.Time
}

// done notes that a list has ended at now and took d.
func (p *pacer) done(now time.Time, d time.Duration) {
	if p.last.IsZero() || now.Sub(p.last) > p.quiet {
		p.backoff.reset()
	}
	p.last, p.cost = now, d
	p.earliest = now.Add(max(p.backoff.next(), time.Duration(p.share)*d))
}

// wait returns how long the next list has to wait.
func (p *pacer) wait(now time.Time) time.Duration { return max(0, p.earliest.Sub(now)) }
