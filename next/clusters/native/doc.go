// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native compares what a member's own controller manager writes into
// its Endpoints with what Tributary computed, and says how far the one runs
// behind the other.
//
// What never happens here: no client, clock, goroutine, logger or metric. Times
// come in as arguments, findings go out as return values.
package native
