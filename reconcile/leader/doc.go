// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leader lets one of several processes of an installation write to the ingress
// cluster: the holder of a Lease.
//
// Permit (permit.go) is the right to write. It ends by this process's own monotonic
// clock before anybody else can take the Lease, and everything that is sent to the
// ingress cluster passes it: requests in its RoundTripper (request.go), bytes in its
// connections (conn.go). So a process that was frozen, or cut off, sends nothing when it
// goes on. Elector (elector.go) gets, renews and releases the Lease with client-go's
// leader election; lock.go is the Lease as that sees it. rights.go finds out whether
// Leases may be written at all: a process that may not writes alone.
//
// What never happens here: a request that changes anything is sent without the Permit;
// the Permit is renewed by anything but an acknowledged write of the Lease; the Lease is
// released while somebody still writes.
package leader
