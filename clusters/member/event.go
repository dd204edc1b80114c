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

// The kinds. Endpoints and EndpointSlices are followed for Services without a selector.
const (
	Pods Kind = iota
	Services
	Endpoints
	EndpointSlices
	// SlicesOf is only asked for: all slices of the Service that a Question names.
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

// Scope is what one stream covers.
type Scope struct {
	Kind Kind
	// Namespace is the only one that is covered; empty: all.
	Namespace string
	// Name is the only object that is covered; empty: all.
	Name string
}

// covers reports whether an object is in the scope.
func (s Scope) covers(key syncer.Key) bool {
	return (s.Namespace == "" || s.Namespace == key.Namespace) && (s.Name == "" || s.Name == key.Name)
}

// Event is something that happened to a member. The set is closed: the types of this
// file.
type Event interface{ event() }

// Seen is an object that a stream shows.
type Seen[T Object] struct {
	Scope Scope
	store.Versioned[T]
	// Arrived is when it was read off the wire.
	Arrived time.Time
}

// Gone is an object that a stream shows to be deleted, or to have left what its selector
// shows.
type Gone struct {
	Scope    Scope
	Key      syncer.Key
	UID      string
	Revision uint64
	Arrived  time.Time
}

// Listed is a complete list: what it lacks is missing. Items belong to the state from
// here on.
type Listed[T Object] struct {
	Scope    Scope
	Items    []store.Versioned[T]
	Revision uint64
	// Rules are those that the items, and what their stream shows from now on, were matched
	// with. Only lists of pods have any; nil: none.
	Rules *Rules
}

// At says that a stream has reached a revision without news.
type At struct {
	Scope    Scope
	Revision uint64
}

// Changed says what a stream does now.
type Changed struct {
	Scope Scope
	Phase Phase
	// Err is why it is Failing or Refused.
	Err error
}

// Phase is what a stream does.
type Phase uint8

// The phases of a stream. It begins with Listing.
const (
	Listing Phase = iota
	Following
	Failing
	Refused // by 401 or 403
)

// WentBack says that a list shows a store that is older than what its stream had reached:
// the revisions of the scope are forgotten. A Listed follows.
type WentBack struct{ Scope Scope }

// Answer is what came of a Question.
type Answer struct {
	Question
	Outcome Outcome
	// Object is a store.Versioned of the kind's type if the Outcome is There; of SlicesOf it is
	// the []store.Versioned[store.HandSlice] that a list shows.
	Object any
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

// Leading says that this process is about to write. Scopes that are not followed at this
// moment start anew: another process may have seen more, and has written it.
type Leading struct{}

// Anew starts all scopes anew: the member is another cluster than before.
type Anew struct{}

// Tick is time that passes; see Effects.Wake.
type Tick struct {
	// Ahead is how far the member's clock is ahead of this process's.
	Ahead time.Duration
}

func (Seen[T]) event()    {}
func (Gone) event()       {}
func (Listed[T]) event()  {}
func (At) event()         {}
func (Changed) event()    {}
func (WentBack) event()   {}
func (Answer) event()     {}
func (Stood) event()      {}
func (Configured) event() {}
func (Leading) event()    {}
func (Anew) event()       {}
func (Tick) event()       {}
