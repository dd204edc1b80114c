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

// Kind is a kind of object that a member is followed for.
type Kind uint8

// The kinds.
const (
	Pods Kind = iota
	Services
	Endpoints
	EndpointSlices
)

// String is the kind as in a manifest.
func (k Kind) String() string {
	return [...]string{"Pod", "Service", "Endpoints", "EndpointSlice"}[min(k, EndpointSlices)]
}

// Object is what a member shows, by kind.
type Object interface {
	syncer.Pod | syncer.Service | store.HandEndpoints | store.HandSlice
}

// Scope is what one stream covers: one namespace and one name; an empty one is all.
type Scope struct {
	Kind            Kind
	Namespace, Name string
}

func (s Scope) covers(key syncer.Key) bool {
	return (s.Namespace == "" || s.Namespace == key.Namespace) && (s.Name == "" || s.Name == key.Name)
}

// Event is something that happened to a member: *Shown, or one of the structs that follow it.
type Event any

// Shown is what an event of a stream says of an object: as it is now, or nil where it is gone, or has
// left the selector. Without a Key the stream has reached a revision without news. Arrived is when it
// was read off the wire.
type Shown[T Object] struct {
	Scope    Scope
	Key      syncer.Key
	UID      string
	Revision uint64
	Object   *store.Versioned[T]
	Arrived  time.Time
}

// Listed is a complete list: what it lacks is missing. Its items belong to the state. Rules
// are those that pods of it, and of its stream from now on, were matched with; nil: none.
type Listed[T Object] struct {
	Scope    Scope
	Items    []store.Versioned[T]
	Revision uint64
	Rules    Rules
}

// Changed says whether a stream is followed now. Err is why it is not; nil: it is being listed, as
// it is at first.
type Changed struct {
	Scope     Scope
	Following bool
	Err       error
}

// WentBack says that the store behind a stream is older than it was. A Listed follows.
type WentBack struct{ Scope Scope }

// Answer is what came of a Question. Object is a store.Versioned of the kind's type if it is
// There; Rules are those that a pod was matched with.
type Answer struct {
	Question
	Outcome Outcome
	Object  any
	Rules   Rules
}

// Outcome is how an Answer ended.
type Outcome uint8

// The outcomes. Whatever its UID, an object of that name is There.
const (
	CannotTell Outcome = iota
	There
	NotThere
)

// Published is what stands of the member in the ingress cluster: see Effects.WantPublished.
type Published struct{ Replicas []PublishedShare }

// PublishedShare is what stands of a member in one replica.
type PublishedShare struct {
	Replica   syncer.Key
	Endpoints []syncer.Endpoint
}

// Configured is another configuration. The first one is given to New.
type Configured struct{ Config }

// Tick is time that passes: whatever time alone brings comes with it. Ahead is how far the member's
// clock is ahead.
type Tick struct{ Ahead time.Duration }

// Effects is what is to be done after a step. The zero value is nothing.
type Effects struct {
	// Dirty are replicas whose share may have changed. Bulk: nobody waits for a single one.
	Dirty []Change
	Bulk  bool
	// Ask are questions to be asked now. Each try is answered by one Answer.
	Ask []Question
	// Turned is true when State.Scopes may have changed, or what State.Status says of them. Relist
	// are streams to be listed again while they go on.
	Turned bool
	Relist []Scope
	// Listed is true when State.Listed has come to be so: it is known from now on what the member lacks.
	Listed bool
	// WantPublished asks for a Published of this moment or later.
	WantPublished bool
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

// step gathers the effects of one Step. byHand: other Services than before are written by hand.
type step struct {
	Effects
	now    time.Time
	byHand bool
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
