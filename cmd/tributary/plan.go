// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/reconcile/plan"
)

// planCommand shows what run would write, and writes nothing.
func planCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("plan", "--config FILE [flags]", "Show what run would create, update and delete. Nothing is written.", stderr)
	path := addConfigFlag(fs)
	output := choiceFlag(fs, "o", "output format", "text", "json")
	timeout := fs.Duration("timeout", 30*time.Second, "how long to wait for clusters to be listed")
	logs := addLogFlags(fs)
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	watcher, code := openConfig("plan", *path, stderr)
	if watcher == nil {
		return code
	}
	loaded := watcher.Loaded()
	if err := usable(loaded); err != nil {
		printError(stderr, "plan", err)
		return exitUsage
	}
	*logs.verbosity -= int(slog.LevelWarn - slog.LevelInfo) // the plan is the output; states are not news here
	r := newReplicator(*path, loaded, logs.newLogger(stderr))
	plans, missing, err := r.planOnce(ctx, *timeout)
	if err != nil {
		printError(stderr, "plan", err)
		return exitFailed
	}
	write := plan.WriteText
	if *output == "json" {
		write = plan.WriteJSON
	}
	if err := write(stdout, plans); err != nil {
		fmt.Fprintf(stderr, "tributary plan: write output: %v\n", err)
		return exitFailed
	}
	if len(missing) > 0 {
		for _, s := range missing {
			fmt.Fprintf(stderr, "tributary plan: cluster %s was not listed within %s (%s); what it contributes is taken as it stands\n", s.Name, *timeout, describe(s))
		}
		return exitFailed
	}
	return exitOK
}

// planOnce lists the ingress cluster, then the members, and plans every
// replica. missing are the members that were not listed in time.
func (r *replicator) planOnce(ctx context.Context, timeout time.Duration) (plans []plan.Plan, missing []clusters.Status, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	side, err := openIngress(ctx, ingressOptions{
		access: r.loaded.Ingress, settings: settings(&r.loaded.Config), source: source{r.set}, metrics: r.metrics, logger: r.logger,
	})
	if err != nil {
		return nil, nil, err
	}
	defer side.close()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { side.reconciler.Observe(ctx) })
	deadline, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	if err := side.reconciler.WaitForSync(deadline); err != nil {
		return nil, nil, fmt.Errorf("the ingress cluster was not listed within %s: %w", timeout, side.reconciler.Trouble())
	}
	r.ingress.Store(side) // first lists are judged by what stands, as run does it
	r.readIdentities(ctx, side)
	r.set.Apply(r.loaded)
	running.Go(func() { r.set.Run(ctx) })
	missing = r.waitForMembers(deadline)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	plans, err = side.reconciler.PlanAll(ctx)
	return plans, missing, err
}

// waitForMembers waits until every member has been listed, or the context ends.
func (r *replicator) waitForMembers(ctx context.Context) (missing []clusters.Status) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing = nil
		for _, s := range r.set.Status() {
			if !s.Synced {
				missing = append(missing, s)
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return missing
		case <-tick.C:
		}
	}
}
