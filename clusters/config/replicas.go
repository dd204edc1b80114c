// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

// Mode says how the Services of one name share a replica.
type Mode string

// The modes. An empty one, where it is allowed, leaves the decision to others.
const (
	// ModeUnion: one replica with the endpoints of all members.
	ModeUnion Mode = "union"
	// ModeSeparate: a replica for each member.
	ModeSeparate Mode = "separate"
	// ModeFailover: one replica with the endpoints of one member, the first in an
	// order that has a ready endpoint.
	ModeFailover Mode = "failover"
)

// Orphans says what becomes of the endpoints of a cluster that is not configured
// any more.
type Orphans string

// The policies for orphans.
const (
	OrphansKeep   Orphans = "keep"
	OrphansDelete Orphans = "delete"
)

// OutputKind is a kind of object written beside the replica Service.
type OutputKind string

// The kinds that `replicas.write` may list.
const (
	WriteEndpoints      OutputKind = "Endpoints"
	WriteEndpointSlices OutputKind = "EndpointSlices"
)

// Replicas says what is written in the ingress cluster.
type Replicas struct {
	// Write lists the kinds to write beside the Service: `Endpoints`,
	// `EndpointSlices`, or both. EndpointSlices need Kubernetes 1.21 or newer in the
	// ingress cluster.
	Write []OutputKind `json:"write"`
	// CreateNamespaces creates a namespace that is missing in the ingress cluster.
	// When false, its Services wait until somebody creates it.
	CreateNamespaces bool `json:"createNamespaces"`
	// MaxEndpointsPerSlice is how many endpoints one EndpointSlice may hold, 1 to
	// 1000. Smaller slices make a change cheaper to send to every watcher, larger
	// ones make fewer objects.
	MaxEndpointsPerSlice int `json:"maxEndpointsPerSlice"`
	// Mode is what becomes of Services that have the same name in several members.
	// `union` makes one replica with the endpoints of all. `separate` makes a replica
	// for each member. `failover` makes one replica with the endpoints of the first member
	// in an order that has a ready one. `rules`, `clusters[].mode` and the annotation
	// `tributary.dev/mode` on a Service override it, the later named the earlier.
	Mode Mode `json:"mode"`
	// SeparateName is the name of a replica in mode `separate`. `{service}` and
	// `{cluster}` must be in it, `{namespace}` (that of the member) may be. A name
	// that grows longer than 63 characters is cut and ends with a hash.
	SeparateName string `json:"separateName"`
	// Failover is the order in which members serve in mode `failover`, by name.
	// Members that it does not name follow in the order of the file. The annotation
	// `tributary.dev/failover: "idc-a,idc-b"` on a Service overrides it.
	Failover []string `json:"failover"`
	// Rules are exceptions for some namespaces. The first one that matches counts,
	// alone.
	Rules []Rule `json:"rules"`
	// Orphans is what becomes of the endpoints of a cluster that has been taken out of
	// `clusters`. `keep` leaves them as they are until the cluster is drained,
	// `delete` takes them away. While a member has not been read yet, the last ready
	// endpoints of a replica are kept in any case.
	Orphans Orphans `json:"orphans"`
	// Labels chooses, by key, which labels of a Service its replica gets, and the
	// Endpoints and EndpointSlices with it.
	Labels Pass `json:"labels"`
	// Annotations chooses, by key, which annotations of a Service its replica gets,
	// the Service alone.
	Annotations Pass `json:"annotations"`
}

// Rule says for some namespaces what `replicas` says for all. A field that is left
// out is as `replicas` has it.
type Rule struct {
	// Namespaces are names or globs of namespaces of the ingress cluster. It may not
	// be empty.
	Namespaces []string `json:"namespaces"`
	// Mode overrides `replicas.mode`.
	Mode Mode `json:"mode"`
	// SeparateName overrides `replicas.separateName`.
	SeparateName string `json:"separateName"`
	// Failover overrides `replicas.failover`.
	Failover []string `json:"failover"`
}

// SetDefaults puts the defaults of a rule in place: it changes nothing.
func (r *Rule) SetDefaults() { r.Failover = []string{} }

// Pass chooses keys: those that match an entry of `pass` and none of `drop`. An
// entry is a key or a glob, in which `*` stands for any text, a slash included. Keys
// that Tributary or Kubernetes itself gives a meaning on the written objects never
// pass. Nor does what an API server would refuse. Keys by which a tool tracks what is
// its own pass only where `pass` has them without a wildcard. They are those of Argo CD, Flux,
// Helm and kustomize, and `app.kubernetes.io/instance`.
type Pass struct {
	// Pass lists the keys to take over.
	Pass []string `json:"pass"`
	// Drop lists the keys to leave out although they pass.
	Drop []string `json:"drop"`
}
