// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff is wait.Backoff with a way back to the start: it doubles a delay up to a cap.
// Half of each delay is random, so that the retries of many clusters do not come back
// in step. It is for one goroutine.
type Backoff struct{ start, now wait.Backoff }

// NewBackoff returns one whose delays grow from base to limit.
func NewBackoff(base, limit time.Duration) Backoff {
	start := wait.Backoff{Duration: base / 2, Cap: limit / 2, Factor: 2, Jitter: 1, Steps: math.MaxInt32}
	return Backoff{start: start, now: start}
}

// Next returns the delay to wait now, between half of the step and the step.
func (b *Backoff) Next() time.Duration { return b.now.Step() }

// Reset makes the next delay short again.
func (b *Backoff) Reset() { b.now = b.start }

// pacer bounds how much of the time goes into lists: after one that took d, the
// next waits at least share*d, and at least a backoff delay when lists follow
// each other. A server that answers every watch with 410 therefore costs at most
// 1/(share+1) of a core and a list each few seconds. The first list after a quiet
// while waits for nothing.
type pacer struct {
	backoff  Backoff
	share    int
	quiet    time.Duration
	last     time.Time
	cost     time.Duration
	earliest time.Time
}

// done notes that a list has ended at now and took d.
func (p *pacer) done(now time.Time, d time.Duration) {
	if p.last.IsZero() || now.Sub(p.last) > p.quiet {
		p.backoff.Reset()
	}
	p.last, p.cost = now, d
	p.earliest = now.Add(max(p.backoff.Next(), time.Duration(p.share)*d))
}

// wait returns how long the next list has to wait.
func (p *pacer) wait(now time.Time) time.Duration { return max(0, p.earliest.Sub(now)) }
