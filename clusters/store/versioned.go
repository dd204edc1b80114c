// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// Versioned is an object of a member as a value, with the revision it was read
// at: metadata.resourceVersion as a number, 0 when it is none.
type Versioned[T any] struct {
	Object T
	// Revision is not compared by the Store: what is set is stored. The caller knows whether it
	// comes from a list, an event or a read.
	Revision uint64
	// Written is the second in which the API server last accepted a change of the object, by its
	// own clock; 0: it does not say. The Store does not look at it.
	Written int64
}

// HandEndpoints are the hand-written Endpoints of a Service without selector.
type HandEndpoints struct {
	syncer.Key
	UID     string
	Subsets []syncer.Subset
	// SkipMirror is true when no slices are to be made from these Endpoints: by
	// label, or because they are a leader election lock (upstream's shouldMirror).
	SkipMirror bool
}

// HandSlice is an EndpointSlice of a Service without selector.
type HandSlice struct {
	syncer.Key
	UID string
	// Service is the name in the kubernetes.io/service-name label.
	Service string
	// Derived is true when a controller made the slice from something that is read
	// here at its source (Pods, Endpoints) or that is our own output: it is no part
	// of what was written by hand.
	Derived bool
	Content syncer.Slice
}

// ServiceKey is the Service that the slice's label names.
func (h *HandSlice) ServiceKey() syncer.Key {
	return syncer.Key{Namespace: h.Namespace, Name: h.Service}
}

// Dirty names a replica whose contribution may have changed, and how: one call returns a
// replica at most once, with its strongest effect.
type Dirty struct {
	Replica syncer.Key
	Effect  syncer.Effect
}
