// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package latency is the measuring stick: how long after a member's API server
// acknowledged a change of a pod does the ingress cluster show it?
//
// An Observer patches pods in a member and watches the ingress cluster with
// clients and a clock of its own; it never reads what the measured program says
// of itself. The NullRelay is the least that any replicator must do: one raw
// pod watch and one prebuilt PUT. A figure means something only as a ratio to
// the relay's on the same clusters in the same run, with the two interleaved.
package latency
