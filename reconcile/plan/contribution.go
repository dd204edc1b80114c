// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/syncer"

// Contribution is what one Service of one member gives to a replica.
type Contribution struct {
	Cluster string
	// Source is the Service in the member; a renamed namespace or a name template
	// makes it differ from the replica's key.
	Source syncer.Key
	syncer.Contribution
	// Unseen marks a share recovered from what stands in the ingress cluster,
	// because its member has not been seen whole since the process started.
	Unseen bool
	// Expected goes with Unseen: the member is configured, and will say more as soon as
	// it is seen.
	Expected bool
	// Orphan goes with Unseen: the cluster is not configured any more, so that
	// nobody follows what stands of it.
	Orphan bool
	// Truncated goes with Unseen: the standing Endpoints had left addresses out, perhaps
	// all of this share.
	Truncated bool
	// Failover is the member's place in the ordered list of those that serve one
	// at a time, counted from 1; 0 when it serves together with all others.
	Failover int
	// Drain takes the member's endpoints out, unless no other member has a ready
	// one; DrainForce takes them out in any case.
	Drain      bool
	DrainForce bool
	// Misread says which setting of the source is not followed, and why; empty: none.
	Misread string
	// Stale marks a member silent for longer than allowed: its endpoints count as
	// not ready where another member still has a ready one.
	Stale bool
	// Panicking marks a member whose pods are kept ready because too many turned not
	// ready at once: of those that serve one at a time, it gives way to the next that is not
	// Away, whose member is not followed now.
	Panicking, Away bool
}
