// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// derivedBy lists the makers of slices that are not hand-written.
var derivedBy = map[string]bool{syncer.SliceComputed: true, syncer.SliceMirrored: true, syncer.SliceManagedBy: true}

// Slice converts an EndpointSlice. An endpoint with
// several addresses becomes several endpoints. An address that is none (a host
// name in a slice of type FQDN, say) has an invalid Addr.
func (d *Decoder) Slice(s *discoveryv1.EndpointSlice) store.Versioned[store.HandSlice] {
	out := store.HandSlice{
		Key:     keyOf(&s.ObjectMeta),
		Service: s.Labels[discoveryv1.LabelServiceName],
		Derived: derivedBy[s.Labels[discoveryv1.LabelManagedBy]],
		Content: syncer.Slice{Name: s.Name, Family: syncer.Family(s.AddressType)},
	}
	if !out.Derived {
		out.UID = string(s.UID)
		out.Content.Ports = slicePorts(s.Ports)
		for i := range s.Endpoints {
			out.Content.Endpoints = appendEndpoints(out.Content.Endpoints, &s.Endpoints[i], out.Content.Ports)
		}
	}
	return store.Versioned[store.HandSlice]{Object: out, Revision: kube.Revision(s.ResourceVersion)}
}

// slicePorts leaves number 0 for a port without number, which in a slice means
// all ports and which no Endpoints can say.
func slicePorts(in []discoveryv1.EndpointPort) (out []syncer.Port) {
	for i := range in {
		p := &in[i]
		out = append(out, syncer.Port{
			Name: ptr.Deref(p.Name, ""), Protocol: protocol(ptr.Deref(p.Protocol, "")), Number: ptr.Deref(p.Port, 0), AppProtocol: syncer.AppProtocolOf(p.AppProtocol),
		})
	}
	return out
}

// appendEndpoints fills in the API's meaning of missing conditions: ready is
// true, serving follows ready, terminating is false.
func appendEndpoints(out []syncer.Endpoint, e *discoveryv1.Endpoint, ports []syncer.Port) []syncer.Endpoint {
	ready := ptr.Deref(e.Conditions.Ready, true)
	for _, address := range e.Addresses {
		out = append(out, syncer.Endpoint{
			Addr:        parseIP(address).Addr,
			Ports:       ports,
			Ready:       ready,
			Serving:     ptr.Deref(e.Conditions.Serving, ready),
			Terminating: ptr.Deref(e.Conditions.Terminating, false),
			NodeName:    ptr.Deref(e.NodeName, ""),
			Zone:        ptr.Deref(e.Zone, ""),
			Hostname:    ptr.Deref(e.Hostname, ""),
			Target:      target(e.TargetRef),
		})
	}
	return out
}
