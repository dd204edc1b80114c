// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"math/rand/v2"
	"time"
)

// Backoff is the delay before a failed key is tried again: Base after the first
// failure, twice as much after each further one, never more than Max; plus up
// to a fifth of that by chance, so that keys which failed together part. It is not
// wait.Backoff, which counts by itself and would be one more value for each key: here the
// delay follows from the failures that a key counts anyway.
type Backoff struct {
	// Base is the first delay and the floor: whatever happens, two attempts of a
	// failing key are at least Base apart. 0 means 50 ms.
	Base time.Duration
	// Max is the longest delay before the jitter; at least Base. 0 means 30 s.
	Max time.Duration
}

const (
	defaultBase = 50 * time.Millisecond
	defaultMax  = 30 * time.Second
	// jitter is the share of a delay that chance may add.
	jitter = 0.2
)

func (b Backoff) withDefaults() Backoff {
	if b.Base <= 0 {
		b.Base = defaultBase
	}
	if b.Max <= 0 {
		b.Max = defaultMax
	}
	b.Max = max(b.Max, b.Base)
	return b
}

// delay returns the wait after the given number of failures in a row, ≥ 1.
func (b Backoff) delay(failures int) time.Duration {
	d := b.Base
	for range failures - 1 {
		if d >= b.Max/2 {
			d = b.Max
			break
		}
		d *= 2
	}
	return spread(d)
}

// spread adds the jitter; it never shortens a delay, because the delay may be
// one that a server asked for.
func spread(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*jitter*rand.Float64())
}
