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

// Effects is what is to be done after a step. The zero value is nothing.
type Effects struct {
	// Dirty are replicas whose share may have changed. Bulk: nobody waits for a single one.
	Dirty []Change
	Bulk  bool
	// Ask are questions to be asked now. Each try is answered by one Answer.
	Ask []Question
	// Follow is true when State.Scopes has changed, Restart when all streams are to be begun
	// anew. Relist are streams to be listed again while they go on.
	Follow, Restart bool
	Relist          []Scope
	// WantStanding asks for a Stood of this moment or later.
	WantStanding bool
}

// Change is a replica whose share may have changed, and why. A Cause is shared and never
// changed.
type Change struct {
	Replica syncer.Key
	Effect  syncer.Effect
	Cause   *Cause
}

// Cause is why replicas are compared.
type Cause struct {
	// Kind is that of an object as in its manifest, or "Cluster" or "Config".
	Kind string
	syncer.Key
	UID string
	// Event is one of those of a change record: "added", "modified", "deleted" for what a
	// stream showed, "listed", "missing", "time" or "configured".
	Event string
	// State and IP are those of a pod: "ready", "not ready", "terminating", "gone".
	State, IP string
	// SourceTime is when the member says that it happened, by its own clock; zero: it does
	// not. Arrived is when it was read off the wire, Live that a stream showed it.
	SourceTime, Arrived time.Time
	Live                bool
}

// Question asks whether an object is there: by a consistent read, never from a cache. UID is
// the one that it had; empty: unknown.
type Question struct {
	ID   uint64
	Kind Kind
	Key  syncer.Key
	UID  string
}

// Share is what the member gives to a replica.
type Share struct {
	// Listed is false as long as what stands of the member, and is kept, is its share. Given is
	// the function of the tables; its Service is nil where there is none.
	Listed bool
	Given  syncer.Contribution
	// Keep returns, of what stands of the member in the replica and is not Given, how it
	// should stand now; ok is false if not at all. Nil: nothing of it should. It is to be
	// called under the lock that guards the State.
	Keep func(e syncer.Endpoint) (as syncer.Endpoint, ok bool)
	// SourceOpen is true while the Service is asked for or unknown: the replica's Service is
	// left as it is. Reserve says why all endpoints are at most Reserve; empty: they are not.
	SourceOpen bool
	Reserve    string
}

// step gathers the effects of one Step. wake is when a Tick is due for it; zero: at no time.
// byHand: other Services than before are written by hand.
type step struct {
	Effects
	now, wake time.Time
	byHand    bool
}

func (o *step) add(replica syncer.Key, effect syncer.Effect, c *Cause) {
	o.Dirty = append(o.Dirty, Change{replica, effect, c})
}

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

// effects returns what was gathered in an order that depends on nothing else: each replica
// once, with its strongest effect and the cause of that.
func (o *step) effects() Effects {
	slices.SortStableFunc(o.Dirty, func(a, b Change) int {
		return cmp.Or(a.Replica.Compare(b.Replica), cmp.Compare(b.Effect, a.Effect))
	})
	o.Dirty = slices.CompactFunc(o.Dirty, func(a, b Change) bool { return a.Replica == b.Replica })
	slices.SortFunc(o.Ask, func(a, b Question) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(o.Relist, Scope.compare)
	return o.Effects
}
