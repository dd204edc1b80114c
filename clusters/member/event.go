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

// The kinds. Endpoints and EndpointSlices are followed for Services without a selector;
// SlicesOf is only asked for: all slices of a Service.
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

// Event is something that happened to a member: one of the types of this file.
type Event interface{ event() }

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
// are those that the items, and what their stream shows from now on, were matched with; nil:
// none, as for all kinds but pods.
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

// WentBack says that the store behind a stream is older than what the stream had reached: its
// revisions are forgotten. A Listed follows.
type WentBack struct{ Scope Scope }

// Answer is what came of a Question. Object is a store.Versioned of the kind's type if it is
// There; of SlicesOf it is the []store.Versioned[store.HandSlice] that a list shows.
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

// Anew has the member begin anew: it is another cluster than before.
type Anew struct{}

// Leading says that this process is about to write. If the member is not followed at this
// moment it begins anew: another process may have seen more, and has written it.
type Leading struct{}

// Tick is time that passes; see State.Wake. Ahead is how far the member's clock is ahead of
// this process's.
type Tick struct{ Ahead time.Duration }

func (*Seen[T]) event()   {}
func (Gone) event()       {}
func (Listed[T]) event()  {}
func (At) event()         {}
func (Changed) event()    {}
func (WentBack) event()   {}
func (Answer) event()     {}
func (Stood) event()      {}
func (Configured) event() {}
func (Anew) event()       {}
func (Leading) event()    {}
func (Tick) event()       {}
