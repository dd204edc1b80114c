// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
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
	// Rival is true where another process wrote it as we do, under our instance's name.
	Rival bool
}

// notifications is what comes out of a step of the cache; it is delivered once the lock
// is released.
type notifications struct {
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
	n.addReplica(c, old)
	if old == nil || now != nil && now.Replica != old.Replica {
		n.addReplica(c, now)
	}
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
