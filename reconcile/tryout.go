// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

const (
	// triedNamespaces bounds the namespaces of which writes are tried out, and triedReplicas
	// the replicas of one that are denied the same: the others would be, too.
	triedNamespaces = 50
	triedReplicas   = 3
)

// try is what is tried out once in a namespace.
type try struct {
	namespace string
	verb      plan.Verb
	kind      plan.Kind
}

// TryOut has the ingress cluster check, and not make, what plans begin with in each
// namespace: one write of each verb and kind, of which admission decides by more than
// rights. Where replicas stand and nothing is planned, that is an update that changes
// nothing. The errors are those of what is denied to all replicas that were tried.
func (r *Reconciler) TryOut(ctx context.Context, plans []plan.Plan) (denied []error) {
	namespaces, admitted, errs := map[string]bool{}, map[try]bool{}, map[try][]error{}
	var order []try
	for i := range plans {
		p := &plans[i]
		if namespaces[p.Replica.Namespace] = true; len(namespaces) > triedNamespaces || ctx.Err() != nil {
			break
		}
		for _, a := range r.firstWrites(p) {
			t := try{p.Replica.Namespace, a.Verb, a.Kind}
			if admitted[t] || len(errs[t]) == triedReplicas {
				continue
			}
			err := r.tryWrite(ctx, p.Replica, &a)
			if err == nil {
				admitted[t] = true
				continue
			}
			if len(errs[t]) == 0 {
				order = append(order, t)
			}
			errs[t] = append(errs[t], fmt.Errorf("may not %s the %s of %s: %w", a.Verb, a.Kind, p.Replica, err))
		}
	}
	for _, t := range order {
		if !admitted[t] {
			denied = append(denied, errs[t][0])
		}
	}
	return denied
}

// firstWrites are what a plan begins with: what goes into a namespace that has to be made
// cannot be tried out before.
func (r *Reconciler) firstWrites(p *plan.Plan) []plan.Action {
	all := slices.Clone(p.Removals)
	for _, stage := range p.Stages {
		if all = append(all, stage...); len(stage) > 0 && stage[0].Kind == plan.KindNamespace {
			return all
		}
	}
	if current := r.cache.Current(p.Replica); len(all) == 0 && current.Ours() {
		if current.Endpoints != nil && current.Endpoints.Owned {
			all = append(all, *current.Endpoints.Unchanged())
		}
		if i := slices.IndexFunc(current.Slices, func(s plan.CurrentSlice) bool { return s.Owned }); i >= 0 {
			all = append(all, *current.Slices[i].Unchanged())
		}
	}
	return all
}

// tryWrite tries out one write. Only what admission says of it is an error: that rights are
// missing, that somebody else leads, or that a webhook has no dry runs, is not.
func (r *Reconciler) tryWrite(ctx context.Context, replica syncer.Key, a *plan.Action) error {
	err := r.writer.DryRun(ctx, replica, a)
	if !kube.Inadmissible(err) || strings.Contains(err.Error(), leader.FencedMark) || kube.NoDryRun(err) {
		return nil
	}
	return err
}
