// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sinks tells receivers outside of Kubernetes what replicas are.
//
// A newcomer starts at Set (set.go), which gets each decision of the reconciler. While this
// process leads, each sink (sink.go) sends its receiver (post.go) the whole document of a
// Service (service.go) that differs from what was last acknowledged, everything once
// when it begins, and everything again with an inventory now and then.
//
// What never happens here: nobody who tells a Set waits for a receiver, nor one sink for
// another; no request is begun without the right to write; nothing outlasts the process;
// nothing of an answer is stored but its status; and no secret is logged.
package sinks
