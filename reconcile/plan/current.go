// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Current is what stands in the ingress cluster under one replica's name, whoever owns
// it. A nil pointer means that the object does not exist.
type Current struct {
	Key       syncer.Key
	Namespace NamespaceState
	Service   *Service
	Endpoints *Endpoints
	// Slices are ours that name this replica in their annotation, and those of others whose
	// label kubernetes.io/service-name does, but for those that controllers of the ingress
	// cluster make; sorted by name.
	Slices []Slice
	// Busy reports about which objects a request is under way, so that nobody knows what stands of
	// them. Nil: about none.
	Busy func(Object) bool
	// Refused reports which objects the server did not take as they should be: what is to be taken
	// away from those is written by itself. Nil: none.
	Refused func(Object) bool
}

// busySlice reports whether a request about a slice is under way.
func (c *Current) busySlice(name string) bool {
	return c.Busy != nil && c.Busy(Object{KindEndpointSlice, c.Key.Namespace, name})
}

// NamespaceState says whether objects can be created in a namespace.
type NamespaceState uint8

// The states of a namespace.
const (
	NamespaceMissing NamespaceState = iota
	NamespaceActive
	NamespaceTerminating
)

// Meta is the metadata of a standing object that decides about writes.
type Meta struct {
	UID, ResourceVersion string
	// Owned is true of what is ours, see the function Owned.
	Owned bool
	// Deleting is true once deletionTimestamp is set.
	Deleting bool
	// Labels and Annotations are all of them for what is ours. Of what is not they are empty, but
	// for the label tributary.dev/instance, which tells people whose it is.
	Labels      syncer.Labels
	Annotations map[string]string
	// Rest is what else an update has to carry on, such as finalizers; only the cache and the
	// writer look into it.
	Rest any
}

// Service is a standing Service: the fields that steer traffic.
type Service struct {
	Meta
	// ClusterIP is "None", an address, or "" where somebody made it an ExternalName.
	ClusterIP   string
	HasSelector bool
	Ports       []syncer.ServicePort
}

// Endpoints is a standing Endpoints object. An address that is none is the zero one.
type Endpoints struct {
	Meta
	Subsets []syncer.Subset
}

// Slice is a standing EndpointSlice. Each endpoint has the grade that it is read with, see
// syncer.Endpoint.StandingGrade.
type Slice struct {
	Meta
	// Owner is the UID of the Service in ownerReferences; "" when there is none.
	Owner string
	syncer.Slice
	// Malformed is true when the slice has what its value cannot express, such as a condition
	// that is not set: ours is written again.
	Malformed bool
}

// slice finds a slice by its name, whoever owns it; nil when there is none.
func (c *Current) slice(name string) *Slice {
	at, found := slices.BinarySearchFunc(c.Slices, name, func(s Slice, name string) int { return strings.Compare(s.Name, name) })
	if !found {
		return nil
	}
	return &c.Slices[at]
}
