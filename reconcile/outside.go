// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

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

// withhold keeps from outside the addresses that are refused, as replicas go without them.
// What else is refused, such as a label, is a matter of the ingress cluster alone. While
// something is searched for it is what was refused before, so that nothing goes and returns
// for the search; another outcome is announced.
func (r *Reconciler) withhold(a *attempt, refused []plan.Refusal) {
	before := a.withheld
	a.withheld = slices.DeleteFunc(slices.Clone(refused), func(one plan.Refusal) bool { return !one.Address.IsValid() })
	if len(a.contributions) > 0 && !slices.EqualFunc(before, a.withheld, plan.Refusal.Is) {
		a.desired = a.outside()
		r.announce(a)
	}
}

// outside is what the replica is to be, but for what is withheld.
func (a *attempt) outside() *plan.Desired {
	told, _ := plan.Without(a.item.Key, a.contributions, a.withheld, a.current)
	plan.Steer(a.item.Key, told, a.settings.Policy)
	desired := plan.Merge(a.item.Key, told, a.current, a.settings)
	return &desired
}
