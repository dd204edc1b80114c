// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// attempt is the state of the work on one key.
type attempt struct {
	item lanes.Item
	// taken is when the item was handed out.
	taken     time.Time
	heartbeat *metrics.Heartbeat
	rec       record.Change
	plan      plan.Plan
	// rejected are the addresses that the members named and nobody may have.
	rejected []plan.ClusterRejection
	held     []metrics.HeldChange
	commit   func()
	refs     []record.Ref
	repair   bool
	// newer is done when a removal comes; checks counts those that were made since it was
	// last looked for.
	newer  context.Context //nolint:containedctx // of the round in hand
	checks int
	// separate is set once something has failed: what takes away is written by itself from
	// then on. pause is what the server asked for with all that is left.
	separate bool
	pause    time.Duration
	// busy are the objects of requests without an answer, until the channels are closed.
	busy map[plan.Object]<-chan struct{}
	// late is why the last write of a Service failed that was not waited for.
	late atomic.Pointer[error]
	// asked is set once a request was made of the ingress cluster.
	asked bool
	// contributions and current are what the plan was made of.
	contributions []plan.Contribution
	current       plan.Current
	// desired is what is told outside: what is wanted, without what is withheld; nil where
	// nobody wants it. wantedKnown is false where that is not certain.
	desired     *plan.Desired
	wantedKnown bool
	withheld    []plan.Refusal
	settings    plan.Settings
	// search finds what the server refuses; former is what had to be left out before
	// this attempt, told what was logged in it.
	search *plan.Isolation
	// content are the objects at which the server fails for what is in them.
	content      map[plan.Object]bool
	former, told []plan.Refusal
}

// repairOnly reports whether nothing but the ingress cluster itself asked for
// the work.
func repairOnly(causes []record.Cause) bool {
	for i := range causes {
		if causes[i].Event != cache.EventRepair {
			return false
		}
	}
	return len(causes) > 0
}

// obstacle says in the record why a change was held that no error stopped.
func (a *attempt) obstacle(result record.Result) error {
	switch {
	case result != record.Held:
		return nil
	case len(a.plan.Conflicts) > 0:
		return fmt.Errorf("conflict: %s: %s", a.plan.Conflicts[0].Reason, a.plan.Conflicts[0].Message)
	case len(a.plan.Held) > 0:
		return fmt.Errorf("%s of %s: %s", a.plan.Held[0].Reason, a.plan.Held[0].Cluster, a.plan.Held[0].Message())
	case len(a.held) > 0:
		return fmt.Errorf("%s: %s", a.held[0].Reason, a.held[0].Message)
	}
	return nil
}

// refresh takes in what has come since the item was handed out, such as the removal that
// broke off an attempt: what is decided next is for that, too, and is recorded with it.
func (r *Reconciler) refresh(a *attempt) {
	if !r.queue.Refresh(&a.item) {
		return
	}
	fresh := record.Begin(a.item.Key.Namespace, a.item.Key.Name, a.rec.Lane, a.item.Causes, a.item.Dropped, a.taken)
	a.rec.Cluster, a.rec.Cause, a.rec.Causes, a.rec.CausesDropped = fresh.Cluster, fresh.Cause, fresh.Causes, fresh.CausesDropped
	a.rec.Stages.Queue = fresh.Stages.Queue
	a.repair = repairOnly(a.item.Causes)
}

// decide gathers and plans.
func (r *Reconciler) decide(a *attempt, gather func(syncer.Key) Snapshot) {
	key := a.item.Key
	current := r.cache.Current(key)
	if r.observer.unread(key.Namespace) {
		current.Namespace = plan.NamespaceUnreadable
	}
	a.current = current
	a.desired, a.wantedKnown = nil, false
	g := gather(key)
	settings := g.Settings
	if settings.MayWrite != nil && !settings.MayWrite(key.Namespace) || r.opts.Only != nil && !slices.Contains(r.opts.Only, key.Namespace) {
		a.plan, a.commit, a.rejected, a.held, a.contributions = plan.OutOfBounds(current), nil, nil, nil, nil
		return
	}
	a.commit, a.rejected, a.held = g.Commit, nil, nil
	contributions, known := completed(g, current)
	a.contributions = contributions
	var left []plan.Refusal
	if a.search != nil {
		left = a.search.LeftOut()
	}
	accepted, refused := plan.Without(key, contributions, left, current)
	plan.Steer(key, accepted, settings.Policy)
	switch {
	case len(accepted) > 0 && key.Name != "": // slices that lost their Service's name are nobody's
		desired := plan.Merge(key, accepted, current, settings.Settings)
		a.rejected = desired.Rejected
		apart := settings.Settings
		apart.Apart = a.separate || a.item.Attempt > 0 || r.pauses.Left(key, time.Now()) > 0
		a.plan = plan.Diff(current, &desired, apart)
		a.desired = &desired
	case len(refused) > 0:
		a.plan = plan.Ending(key, contributions, current, settings.Settings)
	case !known && current.Ours():
		a.plan = plan.Plan{Replica: key}
		a.held = []metrics.HeldChange{{Reason: heldUnseen, Message: "nobody wants this replica, but not every member has been seen yet"}}
	default:
		a.plan = plan.Diff(current, nil, settings.Settings)
	}
	a.wantedKnown, a.settings = known, settings.Settings
	if len(left)+len(a.withheld) > 0 && len(contributions) > 0 {
		a.desired = a.outside()
	}
	a.plan.Conflicts = append(a.plan.Conflicts, refused...)
}

// PlanAll returns what Run would do now, for every replica, sorted; most plans have
// nothing to do or to report. Nothing is written. It needs a running Observe (or Run),
// and members that have synced as far as they can.
func (r *Reconciler) PlanAll(ctx context.Context) ([]plan.Plan, error) {
	if err := r.WaitForSync(ctx); err != nil {
		return nil, fmt.Errorf("listing the ingress cluster: %w", errors.Join(err, r.Trouble()))
	}
	keys := r.cache.Replicas(nil)
	keys = slices.AppendSeq(keys, r.opts.Source.Replicas())
	slices.SortFunc(keys, syncer.Key.Compare)
	keys = slices.Compact(keys)
	plans := make([]plan.Plan, 0, len(keys))
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		plans = append(plans, r.peek(key))
	}
	return plans, nil
}

// peek plans, without effect on later decisions.
func (r *Reconciler) peek(key syncer.Key) plan.Plan {
	a := &attempt{item: lanes.Item{Key: key}}
	r.decide(a, r.opts.Source.Peek)
	return a.plan
}
