// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Change is something that somebody else did.
type Change struct {
	// Replica to look at again; when namespace is set, all those in it.
	Replica   syncer.Key
	Namespace string
	Lane      lanes.Lane
	Cause     record.Cause
	// Rival is true where another process of this installation wrote it, Deleted where it
	// is not known who deleted it. Effect is, of both, what that was.
	Rival, Deleted bool
	Effect         plan.Effect
}

// notifications is what comes out of a step of the cache; it is delivered once the lock
// is released.
type notifications struct {
	// first is true of a list that nothing was known before: it changes nothing.
	first bool
	// older is true of a list that shows the past.
	older     bool
	changes   []Change
	confirmed []confirmation
}

func (c *Cache) deliver(n *notifications) {
	for _, e := range n.confirmed {
		c.confirmed(e.ref, e.at)
	}
	if len(n.changes) > 0 {
		c.notify(n.changes)
	}
}

// add notes what a change from old to now (either may be nil) asks to look at
// again: everything about our own objects, and of foreign ones only that they
// come and go, because that takes or frees a name, or begin and end to serve.
func (n *notifications) add(old, now *Object, at time.Time, lane lanes.Lane) {
	if n.first {
		return
	}
	latest := now
	if now == nil {
		latest = old
	}
	c := Change{Lane: lane, Cause: record.Cause{
		Kind: string(latest.ID.Kind), Namespace: latest.ID.Namespace, Name: latest.ID.Name, UID: latest.UID,
		Event: EventRepair, Arrival: at,
	}}
	if latest.ID.Kind == plan.KindNamespace {
		if old == nil || now == nil || old.Namespace != now.Namespace {
			c.Namespace, c.Lane = latest.ID.Name, lanes.Bulk
			n.changes = append(n.changes, c)
		}
		return
	}
	if old != nil && now != nil && !old.MayBeOurs() && !now.MayBeOurs() && old.Claim == now.Claim && old.Replica == now.Replica && old.serves() == now.serves() {
		return
	}
	c.Rival, c.Deleted = now != nil && now.Rival && !n.older, now == nil && old.Claim == plan.ClaimRecorded && !n.older
	if c.Rival || c.Deleted {
		c.Effect = effect(old, now)
	}
	n.addReplica(c, old)
	if old == nil || now != nil && now.Replica != old.Replica {
		n.addReplica(c, now)
	}
}

// effect is what a change of an object, from old to now, was for traffic.
func effect(old, now *Object) plan.Effect {
	none := &Object{}
	from, to := cmp.Or(old, none), cmp.Or(now, none)
	if from.Slice != nil || to.Slice != nil {
		return plan.EffectOnSlice(from.Slice, to.Slice)
	}
	return plan.EffectOnEndpoints(from.Endpoints, to.Endpoints)
}

// addReplica notes the replica of an object. A slice without a Service name is
// nobody's, unless it is ours and has to go.
func (n *notifications) addReplica(c Change, f *Object) {
	if f != nil && (f.Replica.Name != "" || f.MayBeOurs()) {
		c.Replica = f.Replica
		n.changes = append(n.changes, c)
	}
}

// EventRepair marks causes that come from the ingress cluster itself.
const EventRepair = "repair"
