// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what the ingress cluster should hold and which writes
// lead there, as functions from values to values.
//
// Merge (merge.go) turns the contributions of all members into one Replica: it
// unites their ports (ports.go), steers traffic between members (traffic.go) and
// packs their endpoints. Diff (diff.go) compares a Replica with what stands and
// returns the Actions that make them equal. Current (current.go) is what stands, and its
// Share (recover.go) what a member gave that cannot be seen, so that it is kept. A
// Plan is a printable value: the same one is executed by the writer, shown by
// `tributary plan` and compared in tests.
//
// What never happens here: no client, clock, goroutine, logger or metric, and
// no Kubernetes type. Inputs are never changed and every result is sorted.
package plan
