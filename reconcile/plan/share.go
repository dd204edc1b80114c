// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/syncer"

// Share is what one member gives to one replica.
type Share struct {
	Member string
	// Place is the member's place in the failover order, 0 for the first choice; 0 for all
	// where they serve together.
	Place int
	// Listed is false until the member's lists are complete: what stands of it is its share,
	// Given counts for nothing, and SourceOpen is true.
	Listed bool
	// Given has a nil Service where the member has none of that name.
	Given syncer.Contribution
	// Keep is asked for each endpoint that stands of this member and that Given lacks: as it
	// should be now, or not at all. Nil keeps everything of a member that is not Listed, and
	// nothing of one that is.
	Keep func(syncer.Endpoint) (syncer.Endpoint, bool)
	// SourceOpen means that nobody knows now whether the member still has the Service.
	SourceOpen bool
	// Reserve, when not empty, is why all of the member's endpoints are Reserve at most.
	Reserve string
}

// Settings are what the configuration says about replicas.
type Settings struct {
	// Instance is the name of the installation.
	Instance string
	// WriteEndpoints has Endpoints written beside slices.
	WriteEndpoints bool
	// CreateNamespaces makes a missing namespace an action, not a reason to wait.
	CreateNamespaces bool
	// DropOrphans takes away what stands of members without a share; set it only when every
	// member has been listed.
	DropOrphans bool
	// CopyLabel and CopyAnnotation choose, by key, what a replica takes over from its source.
	// Nil takes over nothing.
	CopyLabel, CopyAnnotation func(key string) bool
	// Capacity limits the addresses of Endpoints that are not written by hand; 0 means
	// syncer.EndpointsCapacity. MaxEndpointsPerSlice limits a slice; 0 means
	// syncer.DefaultMaxEndpoints.
	Capacity, MaxEndpointsPerSlice int
}
