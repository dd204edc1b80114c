// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps, for one receiver outside of Kubernetes, what it acknowledged beside
// what is now, and says what to tell it next, and when.
//
// A newcomer starts at Ledger (ledger.go): Tell what a Service is, Take what is due, and say
// how that went with Acknowledged, Failed or Refused. difference.go has the two windows.
//
// What never happens here: no client, clock, goroutine, logger or metric. Time comes in as
// a value. There is no queue of changes: what is told is always the newest, and what is kept
// is at most three states of a Service, whatever the receiver does.
package ledger
