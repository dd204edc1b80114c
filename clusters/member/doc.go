// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member decides what is believed of one member cluster: what was seen, what
// is gone, what is only missing and has to be asked for, and from when on what the member
// shows replaces what stands of it in the ingress cluster (T1 to T8 of docs/design.md).
//
// A newcomer starts at State.Step (state.go): an event in, the new state inside, and what
// is to be done out (event.go). The way of a pod's event is kind.go (seen, gone, listed),
// asking.go (what lists lack), start.go (what stands, until it was held against lists), share.go
// (what a replica gets). The stories in testdata tell each of these as a transcript.
//
// What never happens here: no client, clock, goroutine, lock, logger or metric. The same
// events have the same effects.
package member
