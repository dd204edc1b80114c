// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

// Slice is the content of one EndpointSlice as a value.
type Slice struct {
	Name   string
	Family Family
	// Ports are those of every endpoint of the slice. A slice that Pack made
	// never changes them, because ingress controllers miss such a change.
	Ports []Port
	// Endpoints carry no Ports of their own and no Only mark.
	Endpoints []Endpoint
}

// Equal reports whether two endpoints are the same inside a slice: everything
// but Ports, which are the slice's, and Only, which decided that it is in the slice. The grade
// counts, because a slice names its reserve.
func (e *Endpoint) Equal(o *Endpoint) bool {
	return e.Addr == o.Addr && e.Grade == o.Grade && e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating &&
		e.NodeName == o.NodeName && e.Zone == o.Zone && e.Hostname == o.Hostname && e.Target == o.Target
}
