// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"net/netip"
	"slices"
)

// Pod is what the rules need to know about a pod, and nothing else. The store holds it in a
// still smaller form: a new field costs its size times every pod of every member.
type Pod struct {
	Key
	UID    string
	Labels Labels
	// IPs are status.podIPs in their order, falling back to status.podIP as an
	// API server does when it fills podIPs in.
	IPs []PodIP
	// Ports lists the named container ports a string targetPort may resolve to:
	// containers first, then restartable init containers (sidecars), each in
	// their order. Shared between pods of one template; treat as read-only.
	Ports     []ContainerPort
	NodeName  string
	Hostname  string
	Subdomain string
	// ReadySince is the Ready condition's lastTransitionTime in Unix seconds by the member's
	// clock; 0 when the condition is missing. It never orders events: a late node
	// heartbeat makes it go backwards.
	ReadySince int64
	// Ready is true when the Ready condition has status True.
	Ready bool
	// Terminating is true once deletion of the pod has begun.
	Terminating bool
	// Terminal is true in phases Succeeded and Failed.
	Terminal bool
	// NodeSilent is true when the pod looks as if the node lifecycle controller,
	// not its kubelet, marked it NotReady: Ready is False with an empty reason
	// while ContainersReady is still True and no readiness gate objects.
	NodeSilent bool
	// HostNetwork is true for a pod that has the address of its node, which it shares.
	HostNetwork bool
	// Matches has bit i set where rule i of the configuration matches the pod.
	Matches uint64
	// WasReady is true for a pod that was ready before and has become not ready since, as far
	// as the store saw it.
	WasReady bool
}

// PodIP is one entry of status.podIPs. Addr is the address parsed leniently as
// upstream does (leading zeros are decimal, an IPv4-mapped IPv6 address is
// IPv4); it is invalid for text that is no address, and then Raw has the text
// so that it can be reported.
type PodIP struct {
	Addr netip.Addr
	Raw  string
}

// ContainerPort is a named port of a container.
type ContainerPort struct {
	Name     string
	Protocol string
	Port     int32
}

// Zone is the topology zone of the pod's node, which the API server copies to the pod since
// Kubernetes 1.35; "" when it is not known.
func (p *Pod) Zone() string { return p.Labels.Get(labelZone) }

// Equal reports whether two versions of a pod are the same to every rule.
func (p *Pod) Equal(o *Pod) bool {
	return p.Key == o.Key && p.UID == o.UID && p.Labels == o.Labels && p.NodeName == o.NodeName &&
		p.Hostname == o.Hostname && p.Subdomain == o.Subdomain && p.ReadySince == o.ReadySince &&
		p.Ready == o.Ready && p.Terminating == o.Terminating && p.Terminal == o.Terminal &&
		p.NodeSilent == o.NodeSilent && p.HostNetwork == o.HostNetwork && p.WasReady == o.WasReady &&
		p.Matches == o.Matches && slices.Equal(p.IPs, o.IPs) && slices.Equal(p.Ports, o.Ports)
}
