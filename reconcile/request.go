// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// unheld is the time between two looks at a Permit that has lapsed: it is renewed soon, or Lead
// ends.
const unheld = 100 * time.Millisecond

// request sends what is granted until ctx is done, with the context writing, which lasts longer.
func (r *Reconciler) request(ctx, writing context.Context) {
	for r.held(ctx) {
		g, ok := r.dispatch.Next(ctx)
		if !ok {
			return
		}
		outcome := lanes.Outcome{Result: lanes.Unused}
		if bounded, release, ok := r.opts.Permit.Hold(writing); ok {
			outcome = r.send(bounded, g)
			release()
		}
		if ended, ends := r.records.answered(g, outcome); ends {
			r.opts.Metrics.Change(ended)
		}
		if g.Action.Kind == plan.KindNamespace {
			r.compareNamespace(g.Action.Name, g.Lane) // others waited for it, too
		}
	}
}

// held waits until the Permit is held; false: ctx is done.
func (r *Reconciler) held(ctx context.Context) bool {
	for ctx.Err() == nil {
		if _, release, ok := r.opts.Permit.Hold(ctx); ok {
			release()
			return true
		}
		timer := time.NewTimer(unheld)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// send sends an action. Should the server refuse it, or say nothing, what the action takes
// away is sent by itself.
func (r *Reconciler) send(ctx context.Context, g *lanes.Grant) lanes.Outcome {
	err := r.write(ctx, g, g.Action)
	out := lanes.Outcome{Result: lanes.Failed, RetryAfter: write.RetryAfter(err)}
	switch meaning := write.Meaning(err); {
	case meaning == metrics.WriteOK:
		out.Result = lanes.Written
	case ctx.Err() != nil: // the Permit has ended, or Lead has
		out.Result = lanes.Unused
		return out
	case !write.TakesLess(meaning):
		return out
	default:
		reduced, ok := g.Action.Reduced(r.cache.Current(g.Work.Key))
		if ok && r.write(ctx, g, reduced) == nil {
			out.Result = lanes.Reduced
		}
	}
	r.troubles.wrote(g.Work.Key, g.Action.Object(), err)
	return out
}

// write makes one request, takes what stands after it into the cache, and notes it on record.
func (r *Reconciler) write(ctx context.Context, g *lanes.Grant, a plan.Action) error {
	object, err := r.writer.Send(ctx, a)
	if object != nil {
		r.cache.Take(object)
		if err == nil && !a.Took(object.Service, object.Endpoints, object.Slice) {
			r.repairs.note(g.Work.Key, object.Object)
		}
	}
	if err == nil || ctx.Err() == nil { // else it is sent again
		r.records.wrote(g.Work, a, err)
	}
	return err
}
