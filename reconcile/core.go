// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"k8s.io/client-go/util/workqueue"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// Core decides what a Reconciler does, as a state machine: each step takes the time, returns at
// once, and starts nothing. What members and others change is Added and Edited, a comparison is
// Compare; a request is Request, the sending of its action, and Answered. One goroutine at a time
// may use a Core.
type Core struct {
	source   Source
	cache    *cache.Cache
	queue    *lanes.Queue
	dispatch *lanes.Dispatch
	// changes are the open records of comparisons of which something is planned or under way,
	// unfinished those that go on in the next one.
	changes    map[*lanes.Work]*change
	unfinished map[syncer.Key]*change
	leading    bool
}

// NewCore returns a Core for the cached ingress cluster, whose News is its Edited. provider
// receives the metrics of the queue; nil: nobody does.
func NewCore(source Source, ingress *cache.Cache, provider workqueue.MetricsProvider) *Core {
	queue := lanes.NewQueue("replicas", provider)
	return &Core{
		source: source, cache: ingress, queue: queue, dispatch: lanes.NewDispatch(queue),
		changes: map[*lanes.Work]*change{}, unfinished: map[syncer.Key]*change{},
	}
}

// Lead says whether this process leads: one that does not plans nothing, and what it had planned
// is not sent when it leads again. One that begins to lead compares all replicas again.
func (c *Core) Lead(now time.Time, leading bool) {
	for _, w := range c.dispatch.Drop(now) {
		delete(c.changes, w)
	}
	c.leading = leading
	if leading {
		c.AddAll(now, record.EventStarted)
	}
}

// Add asks for a comparison of a replica in the lane of the effect that news may have; bulk: it is one of many.
func (c *Core) Add(now time.Time, replica syncer.Key, effect syncer.Effect, bulk bool, causes ...record.Cause) {
	hint := plan.Addition
	switch {
	case bulk:
		hint = plan.Bulk
	case effect == syncer.Removal:
		hint = plan.Removal
	}
	c.queue.Add(now, replica, hint, causes...)
}

// AddAll asks for a comparison of every replica that a member has or that exists, as bulk work.
func (c *Core) AddAll(now time.Time, event string) {
	for _, key := range replicas(c.source, c.cache) {
		c.queue.Add(now, key, plan.Bulk, record.Cause{Kind: "Service", Namespace: key.Namespace, Name: key.Name, Event: event, Arrival: now})
	}
}

// addNamespace asks for a comparison of every replica in a namespace.
func (c *Core) addNamespace(now time.Time, namespace string, causes ...record.Cause) {
	for _, key := range replicas(c.source, c.cache) {
		if key.Namespace == namespace {
			c.queue.Add(now, key, plan.Addition, causes...)
		}
	}
}

// Edited records that somebody else changed an object. An event while our own request for it is under
// way may be that request's; its answer is followed by a comparison anyway.
func (c *Core) Edited(now time.Time, key syncer.Key, o plan.Object, arrived time.Time) {
	cause := record.Cause{Kind: o.Kind.String(), Namespace: o.Namespace, Name: o.Name, Event: record.EventRepaired, Arrival: arrived}
	switch {
	case c.dispatch.Busy(key, o):
	case o.Kind == plan.KindNamespace:
		c.addNamespace(now, o.Name, cause)
	default:
		c.queue.Add(now, key, plan.Addition, cause)
	}
}

// Waiting counts the replicas that wait for a comparison.
func (c *Core) Waiting() int { return c.queue.Len() }

// Status returns how many requests are planned and under way in each lane, and when the oldest change that is
// not yet written arrived, by member.
func (c *Core) Status(now time.Time) (lanes []metrics.LaneStatus, oldest map[string]time.Time) {
	return c.dispatch.Status(now)
}

// Compare compares the next replica, and plans the actions; nil if none waits. clock is read before and
// after. A standby plans and reports nothing: its members start again before it leads.
func (c *Core) Compare(clock func() time.Time) *Comparison {
	w := c.queue.Next()
	if w == nil {
		return nil
	}
	defer c.queue.Done(w)
	begun, current, failed := clock(), c.cache.Current(w.Key), c.dispatch.Failed(w.Key)
	current.Busy = func(o plan.Object) bool { return c.dispatch.Busy(w.Key, o) }
	current.Refused = func(o plan.Object) bool { return failed[o].Refused }
	of := compare(c.source, current)
	of.leads = c.leading
	if !of.leads {
		of.Actions, of.Waiting.More = nil, of.Waiting.More || len(of.Actions) > 0
	}
	of.trouble = of.Troubles()
	if ended := c.settle(w, of, begun, clock()); of.leads {
		of.ended = ended
	}
	for o, last := range c.dispatch.Failed(w.Key) {
		of.trouble.Conflicts = append(of.trouble.Conflicts, metrics.Conflict{Reason: ConflictRefused, Message: o.String() + ": " + last.Err.Error()})
	}
	return of
}

// Request grants the next request. If there is none it is nil, and wake is when to call
// again though nothing else has happened; zero: never.
func (c *Core) Request(now time.Time) (g *lanes.Grant, wake time.Time) {
	if !c.leading {
		return nil, time.Time{}
	}
	if g, wake = c.dispatch.Next(now); g != nil {
		g.Store = c.cache.Store(g.Action.Kind)
	}
	return g, wake
}

// Answered applies the answer to the action of a grant: the object as it is then, nil if that is not
// known, and why the action was not accepted. With lapsed there was no right to wait for an answer, or
// to send. The grant has ended; the records that end with it are returned.
func (c *Core) Answered(now time.Time, g *lanes.Grant, o *cache.Object, err error, lapsed bool) (ended []record.Change) {
	sent := g.Action
	if o != nil {
		for _, key := range c.cache.Take(o, g.Store) {
			if key != g.Work.Key && key.Name != "" { // that one is compared anyway
				c.queue.Add(now, key, plan.Addition)
			}
		}
	}
	switch is := c.changes[g.Work]; {
	case err == nil:
		is.last, is.acked = now, append(is.acked, sent)
		is.rec.Acknowledged(sent.Kind.String(), now)
	case !lapsed: // else it is sent again
		is.err = err
	}
	out := lanes.Outcome{Err: err, RetryAfter: kube.RetryAfter(err), Unused: err != nil && lapsed, Lost: write.Lost(err)}
	out.Refused = !out.Lost && write.TakesLess(write.Meaning(err))
	if c.dispatch.Done(now, g, out) {
		ended = c.end(now, g.Work, out.Unused)
	}
	switch {
	case sent.Kind != plan.KindNamespace:
	case o != nil:
		c.addNamespace(now, sent.Name) // others waited for it, too
	default: // and now for another try; to gather all replicas at each refusal would delay others
		c.queue.AddPending(now, sent.Name)
	}
	return ended
}

// replicas are those that a member has or that exist, sorted.
func replicas(source Source, ingress *cache.Cache) []syncer.Key {
	keys := append(ingress.Keys(), source.Replicas()...)
	slices.SortFunc(keys, syncer.Key.Compare)
	return slices.Compact(keys)
}
