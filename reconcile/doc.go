// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the ingress cluster: it brings its current state to what the members'
// shares demand.
//
// A newcomer starts at Core (core.go), the state machine, and follows one replica through it. A
// comparison (compare.go) takes its key from the queue, merges the members' shares with the current
// state, and plans the resulting actions with the dispatcher. A request is granted a place, its
// action is sent, and the answer goes into the cache and has the replica compared again.
// record.go records the result of each comparison. Reconciler (reconciler.go) is the shell: it
// drives a Core by the clock, step by step under one lock, with a goroutine that compares and one
// for each request. Another driver calls the Core with times and answers of its choice.
// identities.go records which cluster each member is, events.go posts what is wrong for people.
//
// What never happens here: no member cluster is called, no endpoint rule is decided (packages
// syncer and plan do), no write is made without a comparison, a place and the Permit, and no
// key is dropped. Core reads no clock, waits for nothing and starts nothing.
package reconcile
