// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Kind is a kind of object that Tributary writes.
type Kind uint8

// The kinds, in the order in which they are created.
const (
	KindNamespace Kind = iota
	KindService
	KindEndpointSlice
	KindEndpoints
)

// String names the kind as the API does.
func (k Kind) String() string {
	return [...]string{"Namespace", "Service", "EndpointSlice", "Endpoints"}[k%4]
}

// Object names an object of the ingress cluster. That of a namespace has no Namespace.
type Object struct {
	Kind            Kind
	Namespace, Name string
}

// String renders it for people: "Service shop/web".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind.String() + " " + o.Name
	}
	return o.Kind.String() + " " + o.Namespace + "/" + o.Name
}

// Owned reports whose replica an object of ours is: it carries both labels, and the
// annotation that names its replica. A Service or Endpoints under another name than that is
// a copy, and a copy is nobody's; so is anything in another namespace.
func Owned(kind Kind, key syncer.Key, labels, annotations map[string]string, instance string) (replica syncer.Key, ours bool) {
	if labels[syncer.LabelManagedBy] != syncer.ManagedBy || instance == "" || labels[syncer.LabelInstance] != instance {
		return syncer.Key{}, false
	}
	replica, named := syncer.ParseKey(annotations[syncer.AnnotationReplica])
	if !named || replica.Namespace != key.Namespace || kind != KindEndpointSlice && replica != key {
		return syncer.Key{}, false
	}
	return replica, true
}

// Current is what exists in the ingress cluster under one replica's name, whoever owns
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
	// Busy reports for which objects a request is under way, so that their current state is not
	// known. Nil: for none.
	Busy func(Object) bool
	// Refused reports which objects the server did not accept as they should be: their removals are
	// written by themselves. Nil: none.
	Refused func(Object) bool
	// AtOnce makes Actions return all writes that these lead to, as if none had to wait for another.
	AtOnce bool
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

// Meta is the metadata of a current object that decides about writes.
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

// Service is a current Service: the fields that steer traffic.
type Service struct {
	Meta
	// ClusterIP is "None", an address, or "" where somebody made it an ExternalName.
	ClusterIP   string
	HasSelector bool
	Ports       []syncer.ServicePort
}

// Endpoints is a current Endpoints object. An address that is not valid is the zero one.
type Endpoints struct {
	Meta
	Subsets []syncer.Subset
}

// Slice is a current EndpointSlice. Each endpoint has the grade that it is read with, see
// syncer.Endpoint.PublishedGrade.
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
