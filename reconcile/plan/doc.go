// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the ingress cluster should hold and which writes lead
// there, as functions from values to values.
//
// A newcomer starts at Merge (merge.go): what all members contribute to one replica, and what is
// published of those that are not listed (member.go), becomes its Desired state. member.go also decides
// which endpoints are published as ready, package ports unites the members' ports, and traits.go says which
// labels and annotations go with it. Actions (actions.go) compares desired and current state (Current,
// current.go), object by object (objects.go), and returns the writes that may be sent at this moment;
// after each answer the replica is compared again. Where a write as a whole has to wait, or was refused,
// only its removals are written: the object is left with its rest (left.go).
//
// What never happens here: no client, clock, goroutine, logger or metric, and no
// Kubernetes type. Inputs are never changed, and every result is sorted.
package plan
