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
}
