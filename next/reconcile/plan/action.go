// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "tributary.dev/tributary/next/syncer"

// Action is one write of one object: all that the writer needs to know. Exactly one of
// Service, Endpoints and Slice is set when an object of that kind is created or updated.
type Action struct {
	Verb    Verb
	Kind    Kind
	Replica syncer.Key
	// Name is the object's name; that of the namespace for a Namespace.
	Name string
	// UID and ResourceVersion are the preconditions of an update or deletion.
	UID, ResourceVersion string
	// Labels and Annotations are the whole sets to write; treat as read-only.
	Labels, Annotations map[string]string
	// Member is the one that a slice is of, Owner the UID of the Service that it belongs to.
	Member, Owner string
	// Rest is that of the standing object, see Meta.
	Rest      any
	Service   *ServiceSpec
	Endpoints *EndpointsSpec
	Slice     *syncer.Slice
	// Why says for people what is the matter: "10.0.0.7:8080 left".
	Why string
	// Delta is what the write changes in its object.
	Delta Delta

	lane Lane
	want *Desired
}

// ServiceSpec is a Service as it is written: headless, without a selector, with these ports.
type ServiceSpec struct{ Ports []syncer.ServicePort }

// EndpointsSpec is the content of Endpoints as it is written.
type EndpointsSpec struct {
	Subsets []syncer.Subset
	// Truncated is true when addresses over the capacity were left out.
	Truncated bool
}

// Object is what the action writes.
func (a Action) Object() Object {
	if a.Kind == KindNamespace {
		return Object{Kind: a.Kind, Name: a.Name}
	}
	return Object{a.Kind, a.Replica.Namespace, a.Name}
}

// Lane is how urgent the write is: what its difference says, not what caused it.
func (a Action) Lane() Lane { return a.lane }

// Reduced is the write of the same object with only what it takes away, as the object stands
// now; false if that is nothing. It is sent where the server refused the full write.
func (a Action) Reduced(now Current) (Action, bool) { return Action{}, false }

// Delta lists what a write changes for traffic, as "ip:port", sorted; the bare address where
// there are no ports.
type Delta struct {
	Added, Removed, Readied, Unreadied []string
}

// Empty reports whether nothing changes for traffic.
func (d Delta) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Readied)+len(d.Unreadied) == 0
}

// Waiting says why the actions are not all that is to be done, and what is in the way.
type Waiting struct {
	// Reason is set while something outside has to happen first.
	Reason WaitReason
	// More is true when more follows as soon as the actions, or requests that are under way,
	// have their answers.
	More bool
	// Conflicts are those of Desired and those with objects that are not ours; sorted.
	Conflicts []Conflict
}

// WaitReason says what a replica waits for.
type WaitReason string

// The reasons to wait.
const (
	WaitNamespaceMissing     WaitReason = "namespace_missing"
	WaitNamespaceTerminating WaitReason = "namespace_terminating"
	WaitObjectDeleting       WaitReason = "object_deleting"
	WaitForeignService       WaitReason = "foreign_service"
	// WaitUnknownService: the Service is not there, and no member that was listed has it.
	WaitUnknownService WaitReason = "unknown_service"
)

// Actions returns the writes that may be sent now to make what stands what is desired, each on
// one object; nil for want means that nobody wants the replica. Objects that are busy are
// left out.
func Actions(now Current, want *Desired, busy func(Object) bool) ([]Action, Waiting) {
	return nil, Waiting{}
}

// Change is what the actions together change for traffic: an address that leaves one object and
// stands in another has not left.
func Change(now Current, actions []Action) Delta { return Delta{} }
