// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cache knows what stands in the ingress cluster.
//
// A newcomer starts at Cache (cache.go): it is filled by our own watches and by the
// answers to our own writes, whichever is newer (writes.go), and says what others have
// changed (change.go). Objects are turned into values when they come in (decode.go).
//
// What never happens here: nothing is asked of a server, nothing is decided, and nobody
// is told anything with the lock held. What was handed out is never changed.
package cache
