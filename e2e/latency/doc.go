// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package latency measures how long after a member's API server acknowledged a
// change of a pod the ingress cluster shows it.
//
// An Observer patches pods in a member and watches the ingress cluster with
// clients and a clock of its own; it never uses what the measured program
// reports. The NullRelay does the least that any replicator must do: one raw
// pod watch and one prebuilt PUT. A figure is meaningful only as a ratio to the
// relay's on the same clusters in the same run, with the two interleaved.
package latency
