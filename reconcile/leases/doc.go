// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leases shows in the ingress cluster how fresh each member is: one Lease
// per member in Tributary's own namespace, renewed for as long as the member is
// seen. Whoever consumes replicas can tell from it, without asking Tributary, that
// a member's endpoints are as they were at the Lease's renewTime.
//
// Renewer (renewer.go) is all there is. What never happens here: a Lease that is not
// ours is changed; a failure reaches anything else.
package leases
