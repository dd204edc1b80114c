// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package native compares what a member's own controller manager writes into its
// Endpoints with what upstream's rules make of its pods, and says how far the one runs
// behind the other. Start with observer.go, which follows what the one writes and learns what
// touched the other; tracker.go decides about both, expected.go says what is compared, and in
// which form.
//
// What never happens here: nothing follows from it for what is written.
package native
