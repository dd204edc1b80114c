// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store holds what one member cluster shows, in the least memory that
// the rules need, and answers two questions at a cost that does not depend on
// the size of the namespace: which replicas may have changed by this event, and
// what does this member give to that replica.
//
// A newcomer starts at Store (store.go). Values come from package decode; the methods
// that take them in return the Dirty replicas; Inputs and Gather (contributions.go)
// compute what a replica gets from this member. The index is explained in index.go.
//
// # What the caller owes
//
// A Store has no lock: many may read while nobody writes. Events of one kind come from
// one stream and in its order, as an API server sends them: by rising resource version.
// That is what lets the store drop what is older than what it holds (see sequence.go).
//
// # Lists
//
// A complete list is taken in in turns (lists.go), between which others may read. What
// it lacks stays until package evidence has judged it: it is held, and goes on serving
// until an event or a list shows it, or it is removed.
//
// # Memory
//
// A pod of a Deployment of ten costs about 0.45 kB: its record 240 bytes, name
// and UID 80, its slot in the namespace 50, its share of the group 80. A pod of a
// StatefulSet, with a label set of its own, costs about 1.1 kB, a Service with its
// place in the index 1.4 kB, a pod's remembered trigger time 50 bytes. Fleet-like,
// with a Service for ten pods and an eighth of them StatefulSets, all of it makes
// 0.75 kB per pod, against 13 kB for the same pods decoded. Label sets, strings of
// labels, node names and port lists exist once and go with their last user.
// BenchmarkMemoryPerPod and BenchmarkPodEvent of package decode keep these claims.
//
// What never happens here: no client, goroutine, clock, logger or metric; nothing that a
// cluster sends causes a panic; a value that was handed out is never changed.
package store
