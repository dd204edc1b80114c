// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/next/syncer"

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

// Verb is what an Action does.
type Verb uint8

// The verbs.
const (
	Create Verb = iota
	Update
	Delete
)

// String spells the verb as the API does, and as the metrics' label verb.
func (v Verb) String() string { return [...]string{"create", "update", "delete"}[v%3] }

// Lane is how urgent a write is.
type Lane uint8

// The lanes, the most urgent first.
const (
	// Removal: an address leaves or turns not ready, or takes over from those that did.
	Removal Lane = iota
	// Addition: an address arrives or turns ready, or something is made for one.
	Addition
	// Bulk: nothing changes for traffic.
	Bulk
)

// String names the lane as the metrics' label lane.
func (l Lane) String() string { return [...]string{"removal", "addition", "bulk"}[l%3] }

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
