// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package lanes

import (
	"container/list"
	"slices"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Grant is the right to send one request. It is ended by exactly one call of Done.
type Grant struct {
	Action plan.Action
	// Work is the comparison that asked for it, Lane that of the action.
	Work *Work
	Lane Lane

	object *object
	at     time.Time
}

// Result is what became of a grant.
type Result uint8

// The results.
const (
	// Written: the server did what was asked for.
	Written Result = iota
	// Reduced: it did not, but then took what of the action takes away. The rest is delayed
	// as an addition.
	Reduced
	// Failed: nothing of it is known to be written. What is left of it then is delayed.
	Failed
	// Unused: nothing was sent.
	Unused
)

// Outcome is the end of a grant. RetryAfter is what the server asked for: until then nothing
// is sent for the object, removals included.
type Outcome struct {
	Result     Result
	RetryAfter time.Duration
}

// Done ends the grant, frees its place and has the replica compared again, whatever the
// outcome: the answer must be in the cache by then. A second call does nothing. last is true
// when no other action of its Work is planned or under way.
func (g *Grant) Done(out Outcome) (last bool) {
	o, w, d := g.object, g.Work, g.object.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.grant != g {
		return false
	}
	now := time.Now()
	o.grant = nil
	delete(d.underWay, o.name)
	d.held[g.Lane]--
	if g.Lane == plan.Removal {
		d.removed = now
	}
	o.note(g.Lane, out, now)
	w.underWay--
	if out.Result == Written {
		delete(d.replicas[w.Key].objects, o.name)
	}
	w.owed = w.owed || out.Result != Written
	d.lockedFreed(g, out.Result != Unused, now)
	d.lockedFinish(w)
	d.queue.Add(w.Key, g.Lane)
	d.free.Signal()
	return w.planned == 0 && w.underWay == 0
}

// note takes in what became of a request.
func (o *object) note(lane Lane, out Outcome, now time.Time) {
	switch {
	case out.Result == Reduced:
		o.removals = delay{}
		o.others.fail(now)
	case out.Result == Failed && lane == plan.Removal:
		o.removals.fail(now)
	case out.Result == Failed:
		o.others.fail(now)
	}
	if out.RetryAfter > 0 {
		o.asked = now.Add(spread(out.RetryAfter))
	}
}

// A namespace in which a request has been hanging for hanging keeps latePlaces until one is
// answered in time; removals apart from all else, so that they wait for no other.
const (
	hanging    = time.Second
	latePlaces = 2
)

// share is what takes away in a namespace, or all else.
type share struct {
	namespace string
	removals  bool
}

type namespace struct {
	// grants are those under way, the oldest first.
	grants []*Grant
	late   bool
	// parked holds the objects that wait for one of its places, or for another replica's
	// request about the same object.
	parked list.List
}

func (d *Dispatch) lockedNamespace(key syncer.Key, lane Lane) *namespace {
	of := share{key.Namespace, lane == plan.Removal}
	n := d.namespaces[of]
	if n == nil {
		n = &namespace{}
		d.namespaces[of] = n
	}
	return n
}

// full reports whether no more may be under way.
func (n *namespace) full(now time.Time) bool {
	n.late = n.late || len(n.grants) > 0 && now.Sub(n.grants[0].at) >= hanging
	return n.late && len(n.grants) >= latePlaces
}

// lockedFreed takes an ended grant out of its namespace, and lines up what may have its
// place: all where none is left to do so later.
func (d *Dispatch) lockedFreed(g *Grant, sent bool, now time.Time) {
	n := d.lockedNamespace(g.object.key, g.Lane)
	n.grants = slices.DeleteFunc(n.grants, func(other *Grant) bool { return other == g })
	if sent {
		n.late = now.Sub(g.at) >= hanging
	}
	all := !n.late || len(n.grants) == 0
	for count := 0; n.parked.Len() > 0 && (all || count < latePlaces); count++ {
		n.parked.Front().Value.(*object).line()
	}
	if !n.late && len(n.grants) == 0 {
		delete(d.namespaces, share{g.object.key.Namespace, g.Lane == plan.Removal})
	}
}
