// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record is the change record: what happened to one replica, why, and
// how long each step took.
//
// change.go and cause.go are the value, json.go and log.go its two forms, which
// are part of the contract; filter.go picks changes. Keeper (keeper.go) takes
// those that ended: the ring keeps them (ring.go), the journal logs them
// (journal.go), and our own watch of the ingress cluster stamps them (echo.go).
//
// What never happens here: no waiting for a reader, and no list or buffer whose
// size a cluster decides.
package record
