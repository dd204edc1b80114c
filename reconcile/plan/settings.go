// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/syncer"

// Settings are what the configuration says about replicas.
type Settings struct {
	// Instance is the name of the installation; "" means DefaultInstance. It does not
	// change while a process runs.
	Instance string
	// WriteEndpoints and WriteSlices choose the kinds beside the Service.
	WriteEndpoints bool
	WriteSlices    bool
	// CreateNamespaces makes a missing namespace an action, not a reason to wait.
	CreateNamespaces bool
	// Apart has what takes addresses away written by itself, though one write could do
	// more: that one may be what the server does not take.
	Apart bool
	// MaxEndpointsPerSlice limits a slice; 0 means syncer.DefaultMaxEndpoints.
	MaxEndpointsPerSlice int
	// Capacity limits the addresses of Endpoints that are not written by hand; 0
	// means syncer.EndpointsCapacity.
	Capacity int
	// Policy says how sources share a replica; nil: all serve together. It must be
	// pure and safe for concurrent use.
	Policy Policy
	// PassLabel and PassAnnotation choose, by key, what a replica takes over from its
	// source. nil passes every label, and no annotation.
	PassLabel, PassAnnotation func(key string) bool
}

// kinds are the kinds written beside the Service.
func (s Settings) kinds() (kinds syncer.Kinds) {
	if s.WriteEndpoints {
		kinds |= syncer.KindEndpoints
	}
	if s.WriteSlices {
		kinds |= syncer.KindEndpointSlices
	}
	return kinds
}
