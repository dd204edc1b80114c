// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Outside is told what replicas are to be, after all guards and whatever the ingress cluster
// makes of it: *sinks.Set is one. All methods must be safe for concurrent use and must not
// wait.
type Outside interface {
	// Tell says what a replica is to be; nil: nobody wants it.
	Tell(key syncer.Key, replica *plan.Desired)
	// Keys are the replicas that somebody outside knows; they are looked at, too.
	Keys() []syncer.Key
}

// nobody is outside.
type nobody struct{}

func (nobody) Tell(syncer.Key, *plan.Desired) {}
func (nobody) Keys() []syncer.Key             { return nil }

// announce passes on what was decided. Where nothing is certain, what was told stays: as
// what stands does.
func (r *Reconciler) announce(a *attempt) {
	if a.wantedKnown && a.item.Key.Name != "" {
		r.opts.Outside.Tell(a.item.Key, a.desired)
	}
}
