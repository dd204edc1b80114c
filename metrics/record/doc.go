// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record is the change record: what happened to one replica, why, and
// how long each step took.
//
// change.go is the value, whose form in JSON is part of the contract; filter.go picks
// changes for a reader; ring.go remembers those that ended, and logs them.
//
// What never happens here: no waiting for a reader, and no list or buffer whose
// size a cluster decides.
package record
