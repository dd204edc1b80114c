// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Verb is what an Action does.
type Verb string

// The verbs, spelt as in the API and as values of the metrics' verb label.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Kind is the kind of object an Action writes.
type Kind string

// The kinds that Tributary writes.
const (
	KindNamespace     Kind = "Namespace"
	KindService       Kind = "Service"
	KindEndpoints     Kind = "Endpoints"
	KindEndpointSlice Kind = "EndpointSlice"
)

// Action is one write. Exactly one of Service, Endpoints and Slice is set for
// a create or update of that kind; none for a delete or a namespace.
type Action struct {
	Verb      Verb
	Kind      Kind
	Name      string
	Service   *ServiceSpec
	Endpoints *EndpointsSpec
	Slice     *SliceSpec
	// Standing is the metadata of the object to update or delete: the write is
	// conditional on its UID and ResourceVersion.
	Standing *Meta
	// Otherwise, unless nil, is written in this one's place where the server refuses it.
	Otherwise *Action
	// reduces is true where all but the addresses is written as it stands.
	reduces bool
	// Needs are objects without whose writes, earlier in the plan, this one would do
	// harm: an address leaves the slice where it is only when another has it.
	Needs []Object
	// Why is a short reason for people: "ports changed", "10.0.0.7 left".
	Why string
}

// Object names an object among those of one replica.
type Object struct {
	Kind Kind
	Name string
}

// Object is what the action writes.
func (a *Action) Object() Object { return Object{a.Kind, a.Name} }

// ServiceSpec is a replica Service as it should be. In a Desired, Annotations
// are those that Tributary decides, but for its record; in an Action they are the whole
// set to write, with what others put on the standing object. The same holds for
// EndpointsSpec and SliceSpec.
type ServiceSpec struct {
	Record      Record
	Ports       []syncer.ServicePort
	Labels      map[string]string
	Annotations map[string]string
}

// EndpointsSpec is a replica's Endpoints as they should be.
type EndpointsSpec struct {
	Subsets     []syncer.Subset
	Labels      map[string]string
	Annotations map[string]string
	// Truncated is true when addresses over the API's customary 1000 were left
	// out; the over-capacity annotation among Annotations tells users.
	Truncated bool
	// Trigger becomes the last-change-trigger-time annotation; never compared.
	Trigger time.Time
}

// SliceSpec is one EndpointSlice as it should be; it belongs to one cluster.
// The slices of a cluster share one Labels map; treat as read-only.
type SliceSpec struct {
	Cluster string
	syncer.Slice
	Labels      map[string]string
	Annotations map[string]string
	// Trigger becomes the last-change-trigger-time annotation; never compared.
	Trigger time.Time
}

// Desired is the merged wish of all members for one Service name.
type Desired struct {
	syncer.Key
	Service   ServiceSpec
	Endpoints EndpointsSpec
	Slices    []SliceSpec
	Conflicts []Conflict
	Rejected  []ClusterRejection
	// Held are settings that were not followed because traffic would have ended.
	Held []Held
	// Kept are shares of clusters that are not configured any more.
	Kept []Kept
	// given is what was merged, shares what of it reaches the replica.
	given  []Contribution
	shares []*share
}

// Held is a change that was asked for and not made.
type Held struct {
	Cluster string     `json:"cluster"`
	Reason  HeldReason `json:"reason"`
}

// Kept is the share of a cluster that is not configured any more: its endpoints
// stand as they were, and nobody knows whether they still live.
type Kept struct {
	Cluster   string `json:"cluster"`
	Endpoints int    `json:"endpoints"`
}

// HeldReason is a metric label, so the set is closed.
type HeldReason string

// The reasons for holding a change back while merging.
const (
	// HeldDrain: the drained member has the last ready endpoints.
	HeldDrain HeldReason = "drain_last_ready"
	// HeldStale: the silent member has the last ready endpoints.
	HeldStale HeldReason = "stale_last_ready"
	// HeldUnclaimed: Endpoints have addresses that nothing ascribes to a cluster, and a
	// member that may have them has not been read.
	HeldUnclaimed HeldReason = "unclaimed_addresses"
)

// Message says what is held.
func (h Held) Message() string {
	if h.Reason == HeldUnclaimed {
		return "addresses stay in Endpoints that may be of a member that was not read yet"
	}
	return "the last ready endpoints stay"
}

// ClusterRejection is an address that a member named and nobody may have.
type ClusterRejection struct {
	Cluster string
	syncer.Rejection
}

// Conflict is a disagreement that a person should mend.
type Conflict struct {
	Replica syncer.Key     `json:"-"`
	Reason  ConflictReason `json:"reason"`
	// Cluster is the member that lost, empty for a foreign object.
	Cluster string `json:"cluster,omitempty"`
	// Message names both sides and the remedy.
	Message string `json:"message"`
}

// ConflictReason is a metric label, so the set is closed.
type ConflictReason string

// The reasons for a conflict.
const (
	ConflictForeign   ConflictReason = "foreign_object"
	ConflictPort      ConflictReason = "port"
	ConflictHeadless  ConflictReason = "headless"
	ConflictDuplicate ConflictReason = "duplicate_ip"
	ConflictSelector  ConflictReason = "selector"
	// ConflictMutated: the server makes something else of what is written.
	ConflictMutated ConflictReason = "mutated"
	// ConflictName: a replica of one member's own has the name of another's.
	ConflictName ConflictReason = "name"
	// ConflictAnnotation: a source's annotation is not understood.
	ConflictAnnotation ConflictReason = "annotation"
)

// Plan is what has to be done for one replica, in two halves.
type Plan struct {
	Replica syncer.Key
	// Removals are the first half: of objects that stand, what takes addresses away or
	// turns them unready. They depend on nothing, and run side by side. One that puts
	// more right at the same time has what only takes away as its Otherwise.
	Removals []Action
	// Stages are the other half, in order; actions of one stage may run in parallel. One
	// that fails stops only those that need it. An object of the first half may come
	// again: as the first half left it.
	Stages    [][]Action
	Conflicts []Conflict
	Held      []Held
	Kept      []Kept
	Delta     Delta
	// Waiting, when not empty, says what has to happen outside before (the rest
	// of) the replica can be written. The event that ends the wait is watched.
	Waiting WaitReason
	// Again is true when these actions are not all: plan anew after them.
	Again bool
	// current is what stood; see Fields.
	current *Current
}

// WaitReason says what a replica waits for.
type WaitReason string

// The reasons to wait.
const (
	WaitNamespaceMissing     WaitReason = "namespace_missing"
	WaitNamespaceTerminating WaitReason = "namespace_terminating"
	WaitObjectDeleting       WaitReason = "object_deleting"
)

// Delta lists what a Plan changes for traffic, as "ip:port", sorted.
type Delta struct {
	Added     []string
	Removed   []string
	Readied   []string
	Unreadied []string
	// Lost is true when a ready endpoint leaves or turns unready: what makes a write
	// urgent.
	Lost bool
}

// Empty reports whether nothing has to be written.
func (p *Plan) Empty() bool { return len(p.Removals)+len(p.Stages) == 0 }

// Sequence is all that has to be written, in order: the first half, then the stages.
func (p *Plan) Sequence() [][]Action {
	if len(p.Removals) == 0 {
		return p.Stages
	}
	return slices.Insert(slices.Clone(p.Stages), 0, p.Removals)
}

// silent reports whether there is nothing to report either.
func (p *Plan) silent() bool {
	return p.Empty() && p.Waiting == "" && len(p.Conflicts)+len(p.Held)+len(p.Kept) == 0
}
