// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// step gathers the effects of one Step.
type step struct {
	Effects
	now time.Time
}

// add notes a replica.
func (o *step) add(replica syncer.Key, effect syncer.Effect, c *Cause) {
	o.Dirty = append(o.Dirty, Change{replica, effect, c})
}

// dirty notes replicas that have one cause.
func (o *step) dirty(list []store.Dirty, c *Cause) {
	for _, d := range list {
		o.add(d.Replica, d.Effect, c)
	}
}

// touch notes replicas of which an endpoint that stands may be another one now.
func (o *step) touch(replicas []syncer.Key, c *Cause) {
	for _, key := range replicas {
		o.add(key, syncer.Removal, c)
	}
}

// judge notes those of a question that was answered; nil: there was none.
func (o *step) judge(q *question, c *Cause) {
	if q != nil {
		o.touch(q.replicas, c)
	}
}

// effects returns what was gathered in an order that depends on nothing else: each replica
// once, with its strongest effect and the cause of that.
func (o *step) effects() Effects {
	slices.SortStableFunc(o.Dirty, func(a, b Change) int {
		return cmp.Or(a.Replica.Compare(b.Replica), cmp.Compare(b.Effect, a.Effect))
	})
	o.Dirty = slices.CompactFunc(o.Dirty, func(a, b Change) bool { return a.Replica == b.Replica })
	slices.SortFunc(o.Ask, func(a, b Question) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(o.Relist, Scope.compare)
	o.Relist = slices.Compact(o.Relist)
	slices.SortFunc(o.Restart, Scope.compare)
	return o.Effects
}
