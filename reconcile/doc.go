// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the ingress cluster: it makes what stands there equal to what the
// members' shares demand.
//
// A newcomer starts at Reconciler (reconciler.go) and follows one replica through two loops.
// The comparing loop (compare.go) takes its key from the queue, merges the members' shares
// with what stands, and leaves the actions that follow with the dispatcher. The requesting
// loop (request.go) sends one action at a time for each place that the dispatcher grants,
// takes the answer into the cache, and has the replica compared again. record.go tells what
// each comparison came to, repairs.go paces the undoing of what others do, and identities.go
// keeps which cluster each member is.
//
// What never happens here: no member cluster is called, no endpoint rule is decided (packages
// syncer and plan do), no write is made without a comparison, a place and the Permit, and no
// key is given up.
package reconcile
