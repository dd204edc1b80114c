// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native compares what a member's own controller manager writes into its
// Endpoints with what upstream's rules make of its pods, and says how far the one runs
// behind the other. Start with tracker.go; expected.go says what is compared, addresses.go
// in which form.
//
// What never happens here: no client, clock, goroutine, logger or metric. Times come in as
// arguments, findings go out as return values.
package native
