// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store holds what one member cluster shows, in the least memory that
// the rules need, and answers two questions at a cost that does not depend on
// the size of the namespace: which replicas may have changed by this event, and
// what does this member contribute to that replica.
//
// A newcomer starts at Store (store.go) and follows an event of a pod: SetPod (pods.go) stores
// it and returns the Dirty replicas, Contribution (contribution.go) computes what the member
// contributes to one of them. The index that joins pods and Services is explained in index.go,
// the form in which a pod is stored in record.go; read.go has the other queries, hand.go what
// people write by hand. Values come from package decode; package member decides what is set.
//
// A Store has no lock: many may read while nobody writes.
//
// # Memory
//
// A pod of a Deployment of ten costs about 0.25 kB: its record 96 bytes, its name 48, its slot
// in the namespace 50, its share of the group 40. A pod of a StatefulSet, with a label set of
// its own, costs about 0.5 kB, a Service with its place in the index 0.85 kB. With a Service for
// ten pods all of it makes 0.34 kB per pod, against 13 kB for the same pods decoded. Node names
// and lists of ports of pods exist once and go with their last user. BenchmarkMemoryPerPod and
// BenchmarkPodEvent of package decode check these claims.
//
// What never happens here: no client, goroutine, clock, logger or metric; nothing that a
// cluster sends causes a panic; a value that was handed out is never changed.
package store
