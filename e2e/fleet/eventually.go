// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is short enough not to hide a delay that matters and long enough not to load an apiserver. What has to be
// measured is watched, not polled.
const pollEvery = 10 * time.Millisecond

// Eventually calls cond until it returns nil. After the time limit, or when ctx ends, it returns cond's last error.
func Eventually(ctx context.Context, limit time.Duration, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not so within %s", limit))
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
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
		case <-tick.C:
		}
	}
}
