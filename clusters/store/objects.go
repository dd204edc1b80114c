// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"hash/maphash"

	"tributary.dev/tributary/syncer"
)

// Endpoints are the hand-written Endpoints of a Service without selector.
type Endpoints struct {
	syncer.Key
	UID     string
	Subsets []syncer.Subset
	// SkipMirror is true when no slices are to be made from these Endpoints: by
	// label, or because they are a leader election lock (upstream's shouldMirror).
	SkipMirror bool
}

// Node is what endpoints take from a Node: its zone.
type Node struct {
	Name string
	// Zone is empty when the Node does not name one.
	Zone string
}

// Slice is an EndpointSlice of a Service without selector.
type Slice struct {
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

// HashLabels hashes a set of labels; it does not depend on the order in which a map is walked.
func HashLabels(seed maphash.Seed, m map[string]string) uint64 {
	var sum uint64
	for k, v := range m {
		sum += maphash.String(seed, k) * (maphash.String(seed, v) | 1)
	}
	return sum
}
