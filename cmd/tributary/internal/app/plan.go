// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
)

// planLook is how often it is looked whether everything has been listed.
const planLook = 20 * time.Millisecond

// Plan lists the ingress cluster and the members, and compares every replica. Nothing is
// written. missing are the members that were not listed in time: what the ingress cluster has of them is
// taken as their share.
func (a *App) Plan(ctx context.Context, timeout time.Duration) (all []reconcile.Comparison, missing []metrics.ClusterStatus, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { a.ingress.run(ctx) })
	a.follow(ctx, &running)
	deadline, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	if a.reconciler.Cache.WaitForSync(deadline) != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("the ingress cluster was not listed within %s: %s", timeout, a.ingressStatus().LastError)
	}
	select {
	case <-deadline.Done():
	case <-a.joined: // before it nothing is a member
	}
	ticker := time.NewTicker(planLook)
	defer ticker.Stop()
	for !a.source.AllListed() && deadline.Err() == nil {
		select {
		case <-deadline.Done():
		case <-ticker.C:
		}
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	for _, m := range a.members(time.Now()) {
		if !m.Synced {
			missing = append(missing, m)
		}
	}
	return a.reconciler.Plan(), missing, nil
}
