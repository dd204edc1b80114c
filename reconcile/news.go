// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// change is something that somebody else did.
type change struct {
	// replica to look at again; when namespace is set, all those in it.
	replica   syncer.Key
	namespace string
	lane      lanes.Lane
	cause     metrics.Cause
}

// news is what comes out of a step of the view; it is delivered once the lock
// is released.
type news struct {
	changes []change
	echoes  []echo
}

func (v *view) tell(n *news) {
	for _, e := range n.echoes {
		v.echoed(e.ref, e.at)
	}
	if len(n.changes) > 0 {
		v.notify(n.changes)
	}
}

// add notes what a change from old to now (either may be nil) asks to look at
// again: everything about our own objects, and of foreign ones only that they
// come and go, because that takes or frees a name, or begin and end to serve.
func (n *news) add(old, now *found, at time.Time, lane lanes.Lane) {
	latest := now
	if now == nil {
		latest = old
	}
	c := change{lane: lane, cause: metrics.Cause{
		Kind: string(latest.id.kind), Namespace: latest.id.Namespace, Name: latest.id.Name, UID: latest.uid,
		Event: eventRepair, Arrival: at,
	}}
	if latest.id.kind == plan.KindNamespace {
		if old == nil || now == nil || old.namespace != now.namespace {
			c.namespace, c.lane = latest.id.Name, lanes.Bulk
			n.changes = append(n.changes, c)
		}
		return
	}
	if old != nil && now != nil && !old.mayBeOurs() && !now.mayBeOurs() && old.claim == now.claim && old.replica == now.replica && old.serves() == now.serves() {
		return
	}
	n.addReplica(c, old)
	if old == nil || now != nil && now.replica != old.replica {
		n.addReplica(c, now)
	}
}

// addReplica notes the replica of an object. A slice without a Service name is
// nobody's, unless it is ours and has to go.
func (n *news) addReplica(c change, f *found) {
	if f != nil && (f.replica.Name != "" || f.mayBeOurs()) {
		c.replica = f.replica
		n.changes = append(n.changes, c)
	}
}

// eventRepair marks causes that come from the ingress cluster itself.
const eventRepair = "repair"

// eventResync marks looks that nothing has changed for.
const eventResync = "resync"
