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
