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

// Grant is the right to send one request. Exactly one call of Done ends it, also when nothing was
// sent, or its place is lost.
type Grant struct {
	// Action is what is to be sent.
	Action plan.Action
	// Work is the comparison that asked for it.
	Work *Work
	// Store is for the sender: the store that it goes to.
	Store int

	object *object
	at     time.Time
}

// Result is what became of a grant.
type Result uint8

// The results.
const (
	// Written: the server did what was asked for.
	Written Result = iota
	// Failed: nothing of it is known to be written. What the next comparison finds is delayed.
	Failed
	// Refused: likewise, and what the next comparison removes is to be sent by itself.
	Refused
	// Lost: the connection broke. What the next comparison finds is delayed until another is written.
	Lost
	// Unused: nothing was sent.
	Unused
)

// Outcome is the end of a grant. RetryAfter is what the server asked for: until then nothing
// is sent for the object, removals included. Err is why not all is written.
type Outcome struct {
	Result     Result
	RetryAfter time.Duration
	Err        error
}

func (d *Dispatch) grant(o *object, n *namespace, now time.Time) *Grant {
	g := &Grant{Action: o.action, Work: o.work, object: o, at: now}
	g.Work.left++
	o.drop()
	o.grant, d.underWay[o.name] = g, g
	d.held[g.Action.Lane()]++
	d.ready.served++
	n.grants = append(n.grants, g)
	return g
}

// Done ends the grant, frees its place and has the replica compared again, whatever the
// outcome: the answer must be in the cache by then. last is true when no other action of its
// Work is planned or under way.
func (g *Grant) Done(now time.Time, out Outcome) (last bool) {
	o, w, d := g.object, g.Work, g.object.dispatch
	o.grant = nil
	delete(d.underWay, o.name)
	d.held[g.Action.Lane()]--
	if g.Action.Lane() == plan.Removal {
		d.removed = now
	}
	o.note(now, g, out)
	w.left--
	switch next := d.queue.next(w.Key); {
	case out.Result == Written:
	case out.Result == Unused:
		next.gather(w)
	default:
		next.gather(w)
		next.Attempt = max(next.Attempt, w.Attempt+1)
	}
	d.freed(g, out.Result != Unused, now)
	if out.Result == Written {
		d.reached(now)
	}
	d.queue.Add(now, w.Key, g.Action.Lane())
	return w.left == 0
}

// reached ends the delays of lost requests: the server answers again, and removals go first.
func (d *Dispatch) reached(now time.Time) {
	var lost []*object
	d.delayed = slices.DeleteFunc(d.delayed, func(o *object) bool {
		if o.last == Lost {
			lost = append(lost, o)
		}
		return o.last == Lost
	})
	for _, o := range lost {
		o.removals, o.others, o.due, o.last = delay{}, delay{}, time.Time{}, Failed
		o.line(now)
	}
}

// A namespace in which a request has been under way for hanging has latePlaces until one is
// answered in time; removals have their own, so that they wait for no other.
const (
	hanging    = time.Second
	latePlaces = 2
)

// share is the removals of a namespace, or all else.
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

func (d *Dispatch) namespace(key syncer.Key, lane Lane) *namespace {
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

// freed removes an ended grant from its namespace, and lines up again what waits there.
func (d *Dispatch) freed(g *Grant, sent bool, now time.Time) {
	n := d.namespace(g.Work.Key, g.Action.Lane())
	n.grants = slices.DeleteFunc(n.grants, func(other *Grant) bool { return other == g })
	if sent {
		n.late = now.Sub(g.at) >= hanging
	}
	for n.parked.Len() > 0 {
		n.parked.Front().Value.(*object).line(now)
	}
	if !n.late && len(n.grants) == 0 {
		delete(d.namespaces, share{g.Work.Key.Namespace, g.Action.Lane() == plan.Removal})
	}
}
