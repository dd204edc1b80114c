// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sinks tells receivers outside of Kubernetes what replicas are.
//
// A newcomer starts at Set (set.go): it is told each decision of the reconciler, whatever
// the ingress cluster makes of it, and lasts as long as the process. While this process
// leads, Run lets each sink (sink.go) tell its receiver (post.go) what package ledger finds
// due, in the form of event.go. Package state keeps what was acknowledged.
//
// What never happens here: nobody who tells a Set waits for a receiver, nor one sink for
// another; no request is begun without the right to write; nothing is kept of what a
// receiver answers but its status; and no secret is logged.
package sinks
