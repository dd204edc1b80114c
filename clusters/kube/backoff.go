// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"math"
	"sync"
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

// pacer bounds how much of the time goes into lists, those that fail included. The
// first after a quiet while waits for nothing, and one more hardly: a revision that
// expires while a large list is read must not leave the cluster unfollowed. After any
// further one that took d, the next waits at least listShare*d. A server that answers
// every watch with 410 therefore costs at most a list each few seconds and a small part
// of a core. Safe for concurrent use.
type pacer struct {
	mu       sync.Mutex
	backoff  Backoff
	recent   int // lists that followed each other
	last     time.Time
	earliest time.Time
}

// done notes that a list has ended at now and took d.
func (p *pacer) done(now time.Time, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet := max(listQuiet, 2*listShare*d)
	if p.last.IsZero() || now.Add(-d).Sub(p.last) > quiet {
		p.backoff.Reset()
		p.recent = 0
	}
	p.recent++
	p.last = now
	delay := p.backoff.Next()
	if p.recent > 1 {
		delay = max(delay, listShare*d)
	}
	p.earliest = now.Add(delay)
}

// wait returns how long the next list has to wait.
func (p *pacer) wait(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.earliest.Sub(now))
}
