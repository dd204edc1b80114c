// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"context"
	"time"
)

// Removals overtake bulk work in the queue, but not at the API server: what has been
// sent there competes with them. So bulk work is wide only while nothing else goes
// on, narrow beside live changes, and stands aside while one is being written. On two
// cores that hold all servers, twelve keys at once fill a cluster a fifth faster than
// four do; a removal that meets twelve takes a third longer.

const (
	// calmAfter is how long after a live change bulk work grows wide again.
	calmAfter = 250 * time.Millisecond
	// yieldMost bounds one wait for live changes: they may come without end, and bulk
	// work must get on.
	yieldMost = 20 * time.Millisecond
)

// Yield holds back a worker with a bulk key while others work on live changes, though
// not for long. To be called before each group of requests that such a key needs. For
// other keys it returns at once.
func (q *Queue) Yield(ctx context.Context, lane Lane) {
	if lane != Bulk {
		return
	}
	q.mu.Lock()
	calm := q.calm
	q.mu.Unlock()
	if calm == nil {
		return
	}
	limit := time.NewTimer(yieldMost)
	defer limit.Stop()
	select {
	case <-calm:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// lockedBulk is how many bulk keys may be in work now.
func (q *Queue) lockedBulk() int {
	if q.calm != nil || time.Since(q.live) < calmAfter {
		return q.opts.BulkBeside
	}
	return q.opts.BulkMax
}

// lockedBusy counts a key of the lane into work, or out of it.
func (q *Queue) lockedBusy(lane Lane, n int) {
	q.busy[lane] += n
	if lane == Bulk {
		return
	}
	q.live = time.Now()
	switch live := q.busy[Removal] + q.busy[Addition]; {
	case live > 0 && q.calm == nil:
		q.calm = make(chan struct{})
	case live == 0:
		close(q.calm)
		q.calm = nil
	}
}
