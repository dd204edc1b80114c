// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strconv"

	"tributary.dev/tributary/syncer"
)

// Versioned is an object of a member as a value, with the revision it was read
// at: metadata.resourceVersion as a number, 0 when it is none.
type Versioned[T any] struct {
	Object T
	RV     uint64
	// Kept is what rules need of a Pod or Service.
	Kept Kept
	// Written is the second in which the API server last took a change of a Pod, by its own
	// clock; 0: it does not say.
	Written int64
}

// Revision reads a resource version as a number; 0 when it is none, which means
// "unknown" everywhere in this package. Comparing the versions of one resource
// is sanctioned since Kubernetes 1.35 (KEP-5504); all API servers before it used
// etcd's revisions as well.
func Revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Dirty names a replica whose contribution from this member may have changed,
// and the Service of the member it comes from. One call returns a pair of
// replica and source at most once, with its strongest effect.
type Dirty struct {
	Replica syncer.Key
	Source  syncer.Key
	Effect  syncer.Effect
}
