// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Kind is a kind of object that a member is followed for.
type Kind uint8

// The kinds. The last is only asked for: all slices of a Service.
const (
	Pods Kind = iota
	Services
	Endpoints
	EndpointSlices
	SlicesOf
)

// String is the kind as in a manifest.
func (k Kind) String() string {
	return [...]string{"Pod", "Service", "Endpoints", "EndpointSlice", "EndpointSlice"}[min(k, SlicesOf)]
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

// Event is something that happened to a member: *Seen, or one of the structs that follow it.
type Event any

// Seen is an object that a stream shows. Arrived is when it was read off the wire.
type Seen[T Object] struct {
	Scope Scope
	store.Versioned[T]
	Arrived time.Time
}

// Gone is an object that a stream shows to be deleted, or to have left its selector.
type Gone struct {
	Scope    Scope
	Key      syncer.Key
	UID      string
	Revision uint64
	Arrived  time.Time
}

// Listed is a complete list: what it lacks is missing. Its items belong to the state. Rules
// are those that pods of it, and of its stream from now on, were matched with; nil: none.
type Listed[T Object] struct {
	Scope    Scope
	Items    []store.Versioned[T]
	Revision uint64
	Rules    *Rules
}

// At says that a stream has reached a revision without news.
type At struct {
	Scope    Scope
	Revision uint64
}

// Changed says what a stream does now; Err is why it is Failing or Refused.
type Changed struct {
	Scope Scope
	Phase Phase
	Err   error
}

// Phase is what a stream does.
type Phase uint8

// The phases of a stream. It begins with Listing; Refused is by 401 or 403.
const (
	Listing Phase = iota
	Following
	Failing
	Refused
)

// WentBack says that the store behind a stream is older than it was. A Listed follows.
type WentBack struct{ Scope Scope }

// Answer is what came of a Question. Object is a store.Versioned of the kind's type if it is
// There; of SlicesOf it is a SliceList.
type Answer struct {
	Question
	Outcome Outcome
	Object  any
}

// Outcome is how an Answer ended.
type Outcome uint8

// The outcomes. Whatever its UID, an object of that name is There.
const (
	CannotTell Outcome = iota
	There
	NotThere
)

// Stood is what stands of the member in the ingress cluster: see Effects.WantStanding.
type Stood struct{ Replicas []Standing }

// Standing is what stands of a member in one replica.
type Standing struct {
	Replica   syncer.Key
	Endpoints []syncer.Endpoint
}

// Configured is another configuration. The first one is given to New.
type Configured struct{ Config }

// Anew has the member begin anew; if it is for this process begins to write, only if it is not
// followed at this moment: another process may have seen more, and has written it.
type Anew struct{ Leading bool }

// Tick is time that passes; see State.Wake. Ahead is how far the member's clock is ahead.
type Tick struct{ Ahead time.Duration }
