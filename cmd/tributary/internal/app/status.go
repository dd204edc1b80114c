// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
)

// readyAfter is for how long after the start a member that is not reached holds back readiness.
const readyAfter = 15 * time.Second

// status is the state of the process: what /debug/status shows and where the
// gauges get their values. It reads memory only.
func (a *App) status() metrics.Status {
	now := time.Now()
	s := metrics.Status{Version: a.Build.Version, Started: a.started.UTC(), Time: now.UTC(), Clusters: a.set.Status()}
	loaded := a.running()
	s.Instance = loaded.Config.Instance
	s.Config = metrics.ConfigStatus{
		File: a.Path, LoadedAt: a.loadedAt.Load().UTC(), Restart: loaded.Restart, Error: text(loaded.Refused), Refused: refusedOf(loaded),
	}
	s.NotReady = a.notReady(loaded, s.Clusters)
	s.Ready = len(s.NotReady) == 0
	s.Ingress = a.ingressStatus()
	s.Leader = a.leaderStatus()
	var oldest map[string]time.Time // change that is not written yet, by member
	a.reconciler.Step(func(c *reconcile.Core, _ time.Time) {
		s.Comparing = c.Waiting()
		s.Lanes, oldest = c.Status(now)
	})
	for i := range s.Clusters {
		c := &s.Clusters[i]
		if arrival, waiting := oldest[c.Name]; waiting {
			c.LagSeconds = max(c.LagSeconds, now.Sub(arrival).Seconds())
		}
		c.Since, c.LastContact, c.LastErrorAt, c.CredentialExpires = c.Since.UTC(), c.LastContact.UTC(), c.LastErrorAt.UTC(), c.CredentialExpires.UTC()
	}
	s.Sinks = a.sinks.Status()
	return s
}

// notReady lists what readiness waits for; nothing means ready.
func (a *App) notReady(loaded *config.Loaded, members []metrics.ClusterStatus) (reasons []string) {
	if a.ready.Load() {
		return nil
	}
	if !a.reconciler.Cache.HasSynced() {
		reasons = append(reasons, "the ingress cluster has not been listed yet")
	}
	if loaded.SecretsUnread && time.Since(a.started) < readyAfter {
		reasons = append(reasons, "the Secrets of members have not been listed yet")
	}
	select {
	case <-a.joined:
	default:
		reasons = append(reasons, "the record of which cluster each member is has not been read yet")
	}
	for i := range members {
		m := &members[i] // one that answers is waited for, however long its list takes
		if listing := m.Up && m.State == clusters.StateListing; !m.Synced && (listing || time.Since(a.started) < readyAfter) {
			reasons = append(reasons, fmt.Sprintf("cluster %s has not been listed yet", m.Name))
		}
	}
	if len(reasons) == 0 && !a.ready.Swap(true) {
		a.Logger.Info("ready")
	}
	return reasons
}

// planLook is how often it is looked whether everything has been listed.
const planLook = 20 * time.Millisecond

// Plan lists the ingress cluster and the members, and compares every replica. Nothing is
// written. missing are the members that were not listed in time: what is published of them is their
// share.
func (a *App) Plan(ctx context.Context, timeout time.Duration) (all []reconcile.Comparison, missing []metrics.ClusterStatus, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer a.ingress.close()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
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
	_ = wait.PollUntilContextCancel(deadline, planLook, true, func(context.Context) (bool, error) { return a.AllListed(), nil })
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	for _, m := range a.set.Status() {
		if !m.Synced {
			missing = append(missing, m)
		}
	}
	return a.reconciler.Plan(), missing, nil
}
