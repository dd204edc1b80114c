// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache has the current state of the ingress cluster.
//
// A newcomer starts at Cache (cache.go). It is fed by one stream a kind (follow.go) and by
// the answers to our own writes, whichever is newer, and returns the current objects of a
// replica as one value. Objects are held as protobuf, and become values when they are asked for
// (decode.go): ours whole, of those of others no more than that they exist.
//
// A Cache is driven from outside: by Take with an answer, by the Sink of a kind with what a
// stream shows. Both return at once and read no clock; only Follow runs streams.
//
// What never happens here: no request but those of the streams, no decision, and no callback
// with the lock held. What was returned never changes.
package cache
