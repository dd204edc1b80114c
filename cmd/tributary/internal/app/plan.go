// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/reconcile/plan"
)

// Plan lists the ingress cluster, then the members, and plans every
// replica. missing are the members that were not listed in time.
func (r *App) Plan(ctx context.Context, timeout time.Duration) (plans []plan.Plan, missing []clusters.Status, err error) {
	missing, err = r.plan(ctx, timeout, func(_ *ingressSession, all []plan.Plan) { plans = all })
	return plans, missing, err
}

// TryOut plans every replica and returns what the ingress cluster would refuse of it,
// for another reason than rights. Nothing is written.
func (r *App) TryOut(ctx context.Context, timeout time.Duration) (denied []error, err error) {
	_, err = r.plan(ctx, timeout, func(session *ingressSession, all []plan.Plan) { denied = session.reconciler.TryOut(ctx, all) })
	return denied, err
}

// plan hands on what is planned while the session is open.
func (r *App) plan(ctx context.Context, timeout time.Duration, planned func(*ingressSession, []plan.Plan)) (missing []clusters.Status, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := r.sessionOptions(r.loaded, nil)
	options.trial = true
	session, err := openIngress(ctx, options)
	if err != nil {
		return nil, err
	}
	defer session.close()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { session.reconciler.Observe(ctx) })
	deadline, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	if err := session.reconciler.WaitForSync(deadline); err != nil {
		return nil, fmt.Errorf("the ingress cluster was not listed within %s: %w", timeout, session.reconciler.Trouble())
	}
	r.ingress.Store(session) // first lists are judged by what stands, as run does it
	r.readIdentities(ctx, session)
	r.set.Apply(r.loaded)
	running.Go(func() { r.set.Run(ctx) })
	missing = r.waitForMembers(deadline)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	plans, err := session.reconciler.PlanAll(ctx)
	if err == nil {
		planned(session, plans)
	}
	return missing, err
}

// RuleEffects are what the rules of the configuration do in each member that was listed.
func (r *App) RuleEffects() []plan.RuleEffect {
	var all []plan.RuleEffect
	for _, s := range r.set.Status() {
		for _, rule := range s.Rules {
			all = append(all, plan.RuleEffect{
				Cluster: s.Name, Rule: rule.Name, Then: rule.Then, Matches: rule.Matches,
				Takes: rule.Takes, Held: rule.Held, Errors: rule.Errors, LastError: rule.LastError,
			})
		}
	}
	return all
}

// waitForMembers waits until every member has been listed, or the context ends.
func (r *App) waitForMembers(ctx context.Context) (missing []clusters.Status) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing = nil
		for _, s := range r.set.Conditions() {
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
