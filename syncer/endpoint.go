// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// Protocols of the Kubernetes API.
const (
	TCP  = "TCP"
	UDP  = "UDP"
	SCTP = "SCTP"
)

// Port is a resolved port of an endpoint.
type Port struct {
	Name     string
	Protocol string
	Number   int32
	// AppProtocol is compared by value: upstream compares pointers, which within
	// one Service yields the same answer.
	AppProtocol AppProtocol
}

// AppProtocol is an optional application protocol as a comparable value.
type AppProtocol struct {
	Value string
	Set   bool
}

// AppProtocolOf is what a field of the API says.
func AppProtocolOf(field *string) AppProtocol {
	if field == nil {
		return AppProtocol{}
	}
	return AppProtocol{Value: *field, Set: true}
}

// Field is the inverse of AppProtocolOf.
func (p AppProtocol) Field() *string {
	if !p.Set {
		return nil
	}
	return new(p.Value)
}

// Endpoint is one address behind a Service in one member, with all the ports
// it serves there.
type Endpoint struct {
	Addr netip.Addr
	// Ports are in the order of the Service's ports. Endpoints of one template share the
	// slice; treat as read-only.
	Ports []Port
	// Grade says how far the endpoint is trusted with traffic.
	Grade Grade
	// Conditions as EndpointSlices define them, as they are when its class is the one
	// that is published. All three are always known.
	Ready       bool
	Serving     bool
	Terminating bool
	// Only restricts an endpoint to one kind: a hand-written one to where it was found, and one
	// that is not of the family that Endpoints carry to slices. Zero means both kinds.
	Only     Kinds
	NodeName string
	Zone     string
	Hostname string
	Target   TargetRef
}

// Kinds is a set of output kinds.
type Kinds uint8

// The kinds an endpoint may be restricted to.
const (
	KindEndpoints Kinds = 1 << iota
	KindEndpointSlices
)

// PublishedGrade is the grade of a published endpoint: reserve is true where its slice names it as
// one of the reserve. A Contribution grades the endpoint the same, so that a comparison finds no
// difference.
func (e *Endpoint) PublishedGrade(reserve bool) Grade {
	switch {
	case e.Terminating:
		return NotReady
	case reserve:
		return Reserve
	case e.Ready:
		return Ready
	}
	return NotReady
}

// In reports whether the endpoint belongs to the kind.
func (e *Endpoint) In(kind Kinds) bool { return e.Only == 0 || e.Only&kind != 0 }

// Equal reports whether two endpoints are the same inside a slice: everything
// but Ports, which are the slice's, and Only, which decided that it is in the slice. The grade
// counts, because a slice names its reserve.
func (e *Endpoint) Equal(o *Endpoint) bool {
	return e.Addr == o.Addr && e.Grade == o.Grade && e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating &&
		e.NodeName == o.NodeName && e.Zone == o.Zone && e.Hostname == o.Hostname && e.Target == o.Target
}

// CompareEndpoints is the canonical order of a contribution's endpoints: by
// address as text, then by target UID, then by target name.
func CompareEndpoints(a, b *Endpoint) int {
	if c := CompareAddr(a.Addr, b.Addr); c != 0 {
		return c
	}
	if c := strings.Compare(a.Target.UID, b.Target.UID); c != 0 {
		return c
	}
	return cmp.Or(a.Target.Key.Compare(b.Target.Key), strings.Compare(a.Target.Kind, b.Target.Kind))
}

// TargetRef names the object behind an endpoint; zero when there is none.
type TargetRef struct {
	Kind string
	Key
	UID string
}

// Rejection is an address that was left out because the API would refuse it
// or the configuration does not allow it. The rest of the contribution is published.
type Rejection struct {
	// Object is the pod (or hand-written object) that named the address.
	Object TargetRef
	// Address is the text as found.
	Address string
	Reason  RejectReason
}

// RejectReason says why an address was left out; a metric label, so the set is
// closed.
type RejectReason string

// The reasons for which an address is left out.
const (
	RejectMalformed   RejectReason = "malformed"
	RejectUnspecified RejectReason = "unspecified"
	RejectLoopback    RejectReason = "loopback"
	RejectLinkLocal   RejectReason = "link_local"
	RejectMulticast   RejectReason = "multicast"
	RejectNotAllowed  RejectReason = "not_allowed"
	RejectPort        RejectReason = "port"
	RejectHostname    RejectReason = "hostname"
	RejectNodeName    RejectReason = "node_name"
	RejectFQDN        RejectReason = "fqdn"
)

// Share is what one member contributes to one replica.
type Share struct {
	Member string
	// Place is the member's place in the failover order, 0 for the first choice; 0 for all
	// where they serve together.
	Place int
	// Listed is false until the member's lists are complete: what is published of it is its share,
	// Given is ignored, and SourceOpen is true.
	Listed bool
	// Given has a nil Service where the member has none of that name.
	Given Contribution
	// Keep decides about each published endpoint of this member that Given lacks: it returns the
	// endpoint as it should be now, and whether it is retained. Nil retains all endpoints of a member
	// that is not Listed, and none of one that is.
	Keep func(Endpoint) (Endpoint, bool)
	// SourceOpen means that nobody knows now whether the member still has the Service: the replica's
	// is left as it is.
	SourceOpen bool
	// Reserve, when not empty, is why all of the member's endpoints are Reserve at most.
	Reserve string
}

// Contribution is what one Service of one member contributes to a replica.
type Contribution struct {
	Service *Service
	// Endpoints are in canonical order, see CompareEndpoints.
	Endpoints []Endpoint
	// Subsets are set only for a Service without a selector: its hand-written
	// Endpoints as they are written. For others they follow from Endpoints.
	Subsets []Subset
	// Families are the IP families for which the member's slices would exist.
	Families []Family
	Rejected []Rejection
	// Trigger is what the annotation endpoints.kubernetes.io/last-change-trigger-time says of
	// the changes that led here; zero when none of them has a time. It alone is no reason to
	// write.
	Trigger time.Time
	// Next is the earliest moment at which time alone changes a grade; zero: never.
	Next time.Time
}

// Subset is core/v1 EndpointSubset as a value: addresses that share ports.
type Subset struct {
	Ready    []Address
	NotReady []Address
	Ports    []Port
}

// Address is core/v1 EndpointAddress as a value.
type Address struct {
	Addr     netip.Addr
	Hostname string
	NodeName string
	Target   TargetRef
}

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
