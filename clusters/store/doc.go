// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store holds what one member cluster shows, in the least memory that
// the rules need, and answers two questions at a cost that does not depend on
// the size of the namespace: which replicas may have changed by this event, and
// what does this member give to that replica.
//
// A newcomer starts at Store (store.go). Decoder (decode.go) turns objects of
// the API into values on the way in; the Upsert, Delete and Replace methods
// return the Dirty replicas; Gather and Contributions compute what a replica
// gets from this member. The index is explained in index.go.
//
// # What the caller owes
//
// Events of one kind come from one stream and in its order, as an API server
// sends them: by rising resource version. That is what lets the store drop what
// is older than what it holds (see sequence.go). Calls for different kinds, and
// all reads, may come from any number of goroutines.
//
// # Memory
//
// A pod costs about 0.4 kB and its share of its label set; the record is 240
// bytes, its name and UID about 80, its map slot about 40, its place in the
// group 10, the remembered trigger time about 50. Label sets and container port
// lists exist once per distinct content, and go with their last user. The
// benchmarks BenchmarkMemoryPerPod and BenchmarkPodEvent keep these claims.
//
// What never happens here: no client, goroutine, clock, logger or metric; no
// function of the caller's is called while a lock is held; nothing that a
// cluster sends causes a panic; a value that was handed out is never changed.
package store
