// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// derivedBy lists the makers of slices that are not hand-written.
var derivedBy = map[string]bool{syncer.SliceComputed: true, syncer.SliceMirrored: true, syncer.SliceManagedBy: true}

// Slice converts an EndpointSlice; nil gives the zero value. An endpoint with
// several addresses becomes several endpoints. An address that is none (a host
// name in a slice of type FQDN, say) has an invalid Addr.
func (d *Decoder) Slice(s *discoveryv1.EndpointSlice) store.Versioned[store.HandSlice] {
	if s == nil {
		return store.Versioned[store.HandSlice]{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := store.HandSlice{
		Key:     d.key(&s.ObjectMeta),
		Service: s.Labels[discoveryv1.LabelServiceName],
		Derived: derivedBy[s.Labels[discoveryv1.LabelManagedBy]],
		Content: syncer.Slice{Name: s.Name, Family: syncer.Family(d.str(string(s.AddressType)))},
	}
	if !out.Derived {
		out.UID = string(s.UID)
		out.Content.Ports = d.slicePorts(s.Ports)
		for i := range s.Endpoints {
			out.Content.Endpoints = d.appendEndpoints(out.Content.Endpoints, &s.Endpoints[i], out.Content.Ports)
		}
	}
	return store.Versioned[store.HandSlice]{Object: out, Revision: kube.Revision(s.ResourceVersion)}
}

// slicePorts leaves number 0 for a port without number, which in a slice means
// all ports and which no Endpoints can say.
func (d *Decoder) slicePorts(in []discoveryv1.EndpointPort) []syncer.Port {
	var out []syncer.Port
	for i := range in {
		p := &in[i]
		port := syncer.Port{
			Name:        d.str(value(p.Name, "")),
			Protocol:    d.protocol(value(p.Protocol, corev1.ProtocolTCP)),
			Number:      value(p.Port, 0),
			AppProtocol: appProtocol(p.AppProtocol),
		}
		out = append(out, port)
	}
	return out
}

// appendEndpoints fills in the API's meaning of missing conditions: ready is
// true, serving follows ready, terminating is false.
func (d *Decoder) appendEndpoints(out []syncer.Endpoint, e *discoveryv1.Endpoint, ports []syncer.Port) []syncer.Endpoint {
	ready := value(e.Conditions.Ready, true)
	for _, address := range e.Addresses {
		out = append(out, syncer.Endpoint{
			Addr:        parseIP(address).Addr,
			Ports:       ports,
			Ready:       ready,
			Serving:     value(e.Conditions.Serving, ready),
			Terminating: value(e.Conditions.Terminating, false),
			NodeName:    d.str(value(e.NodeName, "")),
			Zone:        d.str(value(e.Zone, "")),
			Hostname:    value(e.Hostname, ""),
			Target:      d.target(e.TargetRef),
		})
	}
	return out
}

// value dereferences an optional field.
func value[T any](p *T, missing T) T {
	if p == nil {
		return missing
	}
	return *p
}
