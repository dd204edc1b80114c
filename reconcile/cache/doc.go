// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache knows what stands in the ingress cluster.
//
// A newcomer starts at Cache (cache.go). It is fed by one stream a kind (follow.go) and by
// the answers to our own writes, whichever is newer, and shows what stands under a replica's
// name as one immutable value. Objects become values when they come in
// (decode.go): ours whole, those of others as no more than that they are there.
//
// A Cache is driven by what it is told: Take with an answer, the Sink of a kind with what a
// stream shows. Both return at once and read no clock; only Follow runs streams.
//
// What never happens here: nothing is asked of a server but by the streams, nothing is
// decided, and nobody is told anything with the lock held. What was handed out never changes.
package cache
