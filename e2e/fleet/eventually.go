// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"
)

// The pause between two looks is a tenth of the time waited so far, within these bounds: what comes soon is seen soon, and
// waiting for half a minute costs API servers little. What has to be measured is watched, not polled.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 200 * time.Millisecond
)

// Eventually calls cond until it returns nil. After the time limit, or when ctx ends, it returns cond's last error.
func Eventually(ctx context.Context, limit time.Duration, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not so within %s", limit))
	defer cancel()
	var last error
	began := time.Now()
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // once time is up, cond says no more than that
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-time.After(min(max(time.Since(began)/10, shortestPause), longestPause)):
		}
	}
}

// Wait waits for a time, or until ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
