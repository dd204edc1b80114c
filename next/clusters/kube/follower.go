// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/next/syncer"
)

// Kind is what a Follower follows.
type Kind[T any] struct {
	// Resource is what is listed and watched.
	Resource Resource
	// Namespace restricts to one namespace; empty for all.
	Namespace string
	// Labels and Fields are selectors; empty for all. An object that leaves them is Gone.
	Labels, Fields string
	// Convert turns a decoded object into what is kept of it, and must not keep a reference
	// to it. Nil without an error: the object counts as gone, as a pod does that has
	// finished. After an error it is as if the object had not been shown.
	Convert func(runtime.Object) (*T, error)
}

// Versioned is an object as a list shows it.
type Versioned[T any] struct {
	// Object is nil where the object is there and counts as gone.
	Object   *T
	Key      syncer.Key
	UID      string
	Revision uint64
}

// Sink is told what a Follower sees. All calls come from the goroutine in Run, one at a
// time and in order, and hold up the stream while they last.
type Sink[T any] interface {
	// Seen is an object that was added or modified. arrived is when its event had been read
	// off the wire.
	Seen(o *T, revision uint64, arrived time.Time)
	// Gone is an object that was deleted, has left the selectors, or counts as gone.
	Gone(key syncer.Key, uid string, revision uint64, arrived time.Time)
	// Listed is a complete list; what it lacks is missing. Objects that could not be
	// converted are not in it.
	Listed(all []Versioned[T], revision uint64)
	// At says that everything up to a revision has been told.
	At(revision uint64)
	// Phase says how the following gets on; err says why not for Failing and Refused.
	Phase(phase Phase, err error)
	// WentBack says that the cluster's store was restored from a backup: revisions that were
	// told before mean nothing any more. A list follows.
	WentBack()
}

// Phase is how a Follower gets on. Whatever it is, nothing follows from it for the data.
type Phase uint8

// The phases.
const (
	// Listing: a list is being read, and no stream is open.
	Listing Phase = iota
	// Following: a stream is open, or has just ended in order.
	Following
	// Failing: the cluster cannot be reached, answers with errors, or is another one.
	Failing
	// Refused: the cluster answers 401 or 403.
	Refused
)

// Follower follows one kind of objects: it lists, watches, and resumes.
type Follower[T any] struct {
	kind   Kind[T]
	access *Access
	sink   Sink[T]
	fault  func(error)
	relist chan struct{}
}

// NewFollower returns a follower. fault is told of each object that the cluster sent and
// that could not be decoded or converted, from any goroutine; nil is told nothing.
func NewFollower[T any](kind Kind[T], access *Access, sink Sink[T], fault func(error)) *Follower[T] {
	return &Follower[T]{kind: kind, access: access, sink: sink, fault: fault, relist: make(chan struct{}, 1)}
}

// Run follows until ctx ends, and returns when everything that it started has ended.
func (f *Follower[T]) Run(ctx context.Context) { <-ctx.Done() }

// Relist asks for a complete list beside the running stream. It may be called at any time
// from any goroutine.
func (f *Follower[T]) Relist() {
	select {
	case f.relist <- struct{}{}:
	default: // one is wanted already
	}
}
