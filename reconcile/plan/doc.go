// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the ingress cluster should hold and which writes lead
// there, as functions from values to values.
//
// A newcomer starts at Merge (merge.go): what all members give to one replica becomes
// its Desired state. Classes (classes.go) decide which of the endpoints are published
// as ready, ports.go unites the members' ports. Actions (actions.go) compares what is
// desired with what stands (Current, current.go) and returns the writes that may be
// sent at this moment; after each answer the replica is compared again. What a write
// takes away can be sent by itself: Reduced (reduced.go).
//
// What never happens here: no client, clock, goroutine, logger or metric, and no
// Kubernetes type. Inputs are never changed, and every result is sorted.
package plan
