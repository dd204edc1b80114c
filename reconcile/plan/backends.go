// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/syncer"

// Backend is an endpoint of a replica with the member that it is in.
type Backend struct {
	Cluster string
	syncer.Endpoint
}

// Backends are all endpoints of a replica, whatever kinds are written: what slices and
// Endpoints are made of. One address may come more than once.
func (r *Desired) Backends() []Backend {
	var out []Backend
	for _, s := range r.shares {
		for i := range s.endpoints {
			out = append(out, Backend{s.Cluster, s.endpoints[i]})
		}
	}
	return out
}
