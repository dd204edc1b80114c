// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import "time"

// bucket is a token bucket: a mean rate, and a burst that may exceed it. The zero
// value lets everything pass.
type bucket struct {
	// rate is in tokens a second; 0: no limit.
	rate, burst float64
	tokens      float64
	at          time.Time
}

func newBucket(rate float64, burst int, now time.Time) bucket {
	most := max(1, float64(burst))
	return bucket{rate: rate, burst: most, tokens: most, at: now}
}

// ready returns how long it takes until there is a token; 0: there is one.
func (b *bucket) ready(now time.Time) time.Duration {
	if b.rate <= 0 {
		return 0
	}
	b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	b.at = now
	if b.tokens >= 1 {
		return 0
	}
	return max(time.Microsecond, time.Duration((1-b.tokens)/b.rate*float64(time.Second)))
}

// take spends a token after ready has said that there is one.
func (b *bucket) take() {
	if b.rate > 0 {
		b.tokens--
	}
}
