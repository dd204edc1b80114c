// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package member decides what is believed of one member cluster: what was seen, what
// is gone, what is only missing and has to be asked for, and when what the member shows
// replaces what the ingress cluster has published of it (T1 to T8 of docs/design.md).
//
// A newcomer starts at State.Step (state.go), which applies an event and returns its effects
// (event.go). An event of a pod passes through kind.go (seen, gone, listed), asking.go (what
// lists lack), start.go (what is published, until it was compared with lists) and share.go
// (the share of a replica). The stories in testdata show each of these as a transcript.
//
// What never happens here: no client, clock, goroutine, lock, logger or metric. The same
// events have the same effects.
package member
