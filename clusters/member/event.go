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

// of is the stream that an event belongs to: those that do embed its Scope.
func (s Scope) of() Scope { return s }

func (s Scope) covers(key syncer.Key) bool {
	return (s.Namespace == "" || s.Namespace == key.Namespace) && (s.Name == "" || s.Name == key.Name)
}

// Event is something that happened to a member: *Shown, or one of the structs that follow it.
type Event any

// Shown is an event of a stream. Object is nil if the object is gone or has left the selector. Without
// a Key it says only that the stream has reached the revision. Arrived is when it was read off the wire.
type Shown[T Object] struct {
	Scope
	Key      syncer.Key
	UID      string
	Revision uint64
	Object   *store.Versioned[T]
	Arrived  time.Time
}

// Listed is a complete list: what it lacks is missing. The state owns the items. Rules are
// those that its pods, and from now on those of its stream, were matched with; nil: none.
type Listed[T Object] struct {
	Scope
	Items    []store.Versioned[T]
	Revision uint64
	Rules    Rules
}

// Phase reports whether a stream is followed. Err is why it is not; nil: it is being listed, which
// is the initial state, too.
type Phase struct {
	Scope
	Following bool
	Err       error
}

// WentBack reports that the store behind a stream was restored to an older state. A Listed follows, and
// State.Store has the other streams listed again.
type WentBack struct{ Scope }

// Answer answers a Question. Object is a store.Versioned of the kind's type: what there is of that
// name, whatever its UID. Gone: there is nothing. Neither: nobody can tell. Rules are those that a
// pod was matched with. Busy: the server has too much to do.
type Answer struct {
	Question
	Object any
	Gone   bool
	Rules  Rules
	Busy   bool
}

// Published is what the ingress cluster has of the member now, by replica: see Effects.WantPublished.
type Published map[syncer.Key][]syncer.Endpoint

// Configured is another configuration; New takes the first one. If its Rules differ, the caller has pods
// listed again beside their streams (T7).
type Configured struct{ Config }

// Tick tells the time: retries, staleness and grades that end are checked when it comes. Ahead is how
// far the member's clock is ahead of ours.
type Tick struct{ Ahead time.Duration }

// Effects is what the caller has to do after a step. The zero value is nothing.
type Effects struct {
	// Dirty are replicas whose share may have changed. Bulk: none of them is urgent.
	Dirty []Change
	Bulk  bool
	// Ask are questions to be asked now. Each try is answered by one Answer.
	Ask []Question
	// ScopesChanged is true if State.Scopes, or what State.Status says of them, may have changed:
	// State.Listed, too.
	ScopesChanged bool
	// WantPublished requests a Published that is read now or later.
	WantPublished bool
}

// Change is a replica whose share may have changed, and why. A Cause is shared and immutable.
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
	// SourceTime is when it happened, by the member's own clock; zero: unknown. Arrived is when
	// it was read off the wire. Live: a stream showed it.
	SourceTime, Arrived time.Time
	Live                bool
}

// Question asks whether an object exists, by a consistent read and never from a cache. UID is
// the last one known; empty: unknown.
type Question struct {
	ID   uint64
	Kind Kind
	Key  syncer.Key
	UID  string
}

func byID(a, b Question) int { return cmp.Compare(a.ID, b.ID) }

// step collects the effects of one Step. byHand: the set of Services with hand-written endpoints changed.
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

// touch marks replicas dirty of which a published endpoint may have changed.
func (o *step) touch(replicas []syncer.Key, c *Cause) {
	for _, key := range replicas {
		o.add(key, syncer.Removal, c)
	}
}

// effects returns what was collected, in a deterministic order: each replica once, with its
// strongest effect and the cause of that.
func (o *step) effects() Effects {
	slices.SortStableFunc(o.Dirty, func(a, b Change) int {
		return cmp.Or(a.Replica.Compare(b.Replica), cmp.Compare(b.Effect, a.Effect))
	})
	o.Dirty = slices.CompactFunc(o.Dirty, func(a, b Change) bool { return a.Replica == b.Replica })
	return o.Effects
}
