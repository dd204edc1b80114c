// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader lets one of several processes of an installation write to the ingress
// cluster: the holder of a Lease. A newcomer starts at Permit (permit.go), the right to
// write; Elector (elector.go) gets it by client-go's leader election, which sees the Lease
// through lock.go.
//
// What never happens here: the Permit is extended by anything but an acknowledged write of
// the Lease; the Lease is taken while another process may count on it, or released while
// this one still writes.
package leader
