// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"strings"
	"time"

	"tributary.dev/tributary/syncer"
)

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
	// Removal: an address leaves or becomes not ready, or takes over from those that did.
	Removal Lane = iota
	// Addition: an address arrives or becomes ready, or something is created for one.
	Addition
	// Bulk: nothing changes for traffic.
	Bulk
)

// String names the lane as the metrics' label lane.
func (l Lane) String() string { return [...]string{"removal", "addition", "bulk"}[l%3] }

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
	// Owner is the UID of the Service that a slice belongs to.
	Owner string
	// Rest is that of the current object, see Meta.
	Rest      any
	Service   *ServiceSpec
	Endpoints *EndpointsSpec
	Slice     *syncer.Slice
	// Why tells people the reason: "labels or annotations differ".
	Why string
	// Delta is what the write changes in its object.
	Delta Delta
	// Less is true of a write that only removes: more may follow.
	Less bool

	lane Lane
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

// Lane is how urgent the write is: it follows from the difference, not from the cause.
func (a Action) Lane() Lane { return a.lane }

// endpoints are those that the object has after the action, with their ports.
func (a *Action) endpoints() []syncer.Endpoint {
	switch {
	case a.Slice != nil:
		return endpointsOf(a.Slice)
	case a.Endpoints != nil:
		return endpointsIn(a.Endpoints.Subsets)
	}
	return nil
}

// write sets the content of an action to what is desired.
func (a *Action) write(w *wish, current *Meta) {
	a.Service, a.Endpoints, a.Slice = w.service, w.endpoints, w.slice
	a.dress(current, &w.traits)
	if !w.trigger.IsZero() {
		a.Annotations[syncer.AnnotationTriggerTime] = w.trigger.UTC().Format(time.RFC3339Nano)
	}
	if w.endpoints != nil && w.endpoints.Truncated {
		a.Annotations[syncer.AnnotationOverCapacity] = overCapacity
	}
	if w.slice != nil {
		if reserve := reserveOf(w.slice.Endpoints); reserve != "" {
			a.Annotations[syncer.AnnotationReserve] = reserve
		}
	}
}

// Waiting says why more remains to be done than the actions, and what is in the way.
type Waiting struct {
	// More is true when more follows as soon as the actions, or requests that are under way,
	// have their answers.
	More bool
	// Conflicts are those of Desired, those with objects that are not ours, and what has to happen
	// first; sorted.
	Conflicts []Conflict
}

// Conflict is a disagreement that a person should mend.
type Conflict struct {
	Reason ConflictReason `json:"reason"`
	// Member is the one that lost; empty for an object of somebody else.
	Member string `json:"cluster,omitempty"`
	// Message names both sides and the remedy.
	Message string `json:"message"`
}

// ConflictReason is a metric label, so the set is closed.
type ConflictReason string

// The reasons for a conflict.
const (
	// ConflictForeign: an object that is not ours exists where ours should.
	ConflictForeign ConflictReason = "foreign_object"
	// ConflictInstance: it is another installation's.
	ConflictInstance ConflictReason = "other_instance"
	// ConflictPort: members disagree about a port.
	ConflictPort ConflictReason = "port"
	// ConflictSelector: somebody set a selector on the replica.
	ConflictSelector ConflictReason = "selector"
	// The others are what a replica waits for; ConflictUnknown: the Service is not there, and no
	// member that was listed has it.
	ConflictNamespaceMissing     ConflictReason = "namespace_missing"
	ConflictNamespaceTerminating ConflictReason = "namespace_terminating"
	ConflictDeleting             ConflictReason = "object_deleting"
	ConflictUnknown              ConflictReason = "unknown_service"
)

func compareConflicts(a, b Conflict) int {
	return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)),
		strings.Compare(a.Member, b.Member), strings.Compare(a.Message, b.Message))
}
