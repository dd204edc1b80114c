// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader lets at most one process of an installation write to the ingress
// cluster: the holder of a Lease. A newcomer starts at Term (term.go), the arithmetic of when
// a process may write and when another may take the Lease; whoever drives it tells it the time.
// Permit (permit.go) is the right to write, by the real clock; Elector (elector.go) gets it by
// client-go's leader election, which sees the Lease through lock.go.
//
// What never happens here: the Permit is extended by anything but an acknowledged write of
// the Lease; the Lease is taken while another process may count on it, or released while
// this one still writes.
package leader
