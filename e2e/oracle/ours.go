// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/syncer"
)

// Ours is what our rules compute for a case.
type Ours struct {
	Contribution syncer.Contribution
	Subsets      []syncer.Subset
	Truncated    bool
	Slices       []syncer.Slice
	// Trigger is the trigger time of a first computation, formatted as the annotation.
	Trigger string
}

// Compute runs a case through the decoder, the rules, and the classes of a merge with this
// member alone.
func Compute(c *Case) *Ours {
	decoder := decode.New(decode.Options{})
	svc := decoder.Service(c.Service).Object
	selected := c.selected()
	pods := make([]syncer.Pod, len(selected))
	for i, p := range selected {
		pods[i] = decoder.Pod(onItsNode(p)).Object
	}
	o := &Ours{Contribution: syncer.Compute(&svc, pointers(pods), syncer.Options{})}
	if o.Sound() {
		o.withoutReserve()
	}
	o.Subsets, o.Truncated = syncer.Truncate(
		syncer.Subsets(o.Contribution.Endpoints), syncer.EndpointsCapacity)
	o.Slices = syncer.Pack(nil, o.Contribution.Endpoints, o.Contribution.Families,
		syncer.PackOptions{Service: svc.Key, Cluster: "member"})
	var trigger syncer.Trigger
	if at := trigger.Time(&svc, func(string) int64 { return 0 }); !at.IsZero() {
		o.Trigger = at.UTC().Format(timeFormat)
	}
	return o
}

// Sound reports whether an endpoint is ready without a doubt: then no reserve serves.
func (o *Ours) Sound() bool {
	return slices.ContainsFunc(o.Contribution.Endpoints, func(e syncer.Endpoint) bool { return e.Grade == syncer.Ready })
}

// withoutReserve publishes the reserve as a merge does in which others serve.
func (o *Ours) withoutReserve() {
	for i := range o.Contribution.Endpoints {
		if e := &o.Contribution.Endpoints[i]; e.Grade == syncer.Reserve {
			e.Ready, e.Serving = false, false
		}
	}
}

// onItsNode returns the pod with its node's zone, as API servers label it.
func onItsNode(p *corev1.Pod) *corev1.Pod {
	zone := zoneOf(p.Spec.NodeName)
	if zone == "" {
		return p
	}
	labelled := *p
	labelled.Labels = maps.Clone(p.Labels)
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[corev1.LabelTopologyZone] = zone
	return &labelled
}

// timeFormat is the format of the trigger-time annotation.
const timeFormat = "2006-01-02T15:04:05.999999999Z07:00"

// pointers yields the address of each element.
func pointers[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// endpointSubsets converts subsets to the API's type.
func endpointSubsets(subsets []syncer.Subset) []corev1.EndpointSubset {
	out := make([]corev1.EndpointSubset, len(subsets))
	for i := range subsets {
		s := &subsets[i]
		out[i].Addresses, out[i].NotReadyAddresses = endpointAddresses(s.Ready), endpointAddresses(s.NotReady)
		for _, p := range s.Ports {
			port := corev1.EndpointPort{Name: p.Name, Port: p.Number, Protocol: corev1.Protocol(p.Protocol), AppProtocol: p.AppProtocol.Field()}
			out[i].Ports = append(out[i].Ports, port)
		}
	}
	return out
}

func endpointAddresses(list []syncer.Address) []corev1.EndpointAddress {
	var out []corev1.EndpointAddress
	for i := range list {
		a := corev1.EndpointAddress{IP: list[i].Addr.String(), Hostname: list[i].Hostname, TargetRef: objectReference(list[i].Target)}
		if list[i].NodeName != "" {
			a.NodeName = &list[i].NodeName
		}
		out = append(out, a)
	}
	return out
}

func objectReference(t syncer.TargetRef) *corev1.ObjectReference {
	if t == (syncer.TargetRef{}) {
		return nil
	}
	return &corev1.ObjectReference{Kind: t.Kind, Namespace: t.Namespace, Name: t.Name, UID: uid(t.UID)}
}

// endpointSlice converts a slice to the API's type.
func endpointSlice(s *syncer.Slice) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressType(s.Family)}
	out.Name = s.Name
	for _, p := range s.Ports {
		port := discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Number, Protocol: new(corev1.Protocol(p.Protocol)), AppProtocol: p.AppProtocol.Field()}
		out.Ports = append(out.Ports, port)
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		endpoint := discoveryv1.Endpoint{Addresses: []string{e.Addr.String()}, TargetRef: objectReference(e.Target),
			Conditions: discoveryv1.EndpointConditions{Ready: &e.Ready, Serving: &e.Serving, Terminating: &e.Terminating}}
		endpoint.NodeName, endpoint.Zone, endpoint.Hostname = optional(&e.NodeName), optional(&e.Zone), optional(&e.Hostname)
		out.Endpoints = append(out.Endpoints, endpoint)
	}
	return out
}

func optional(text *string) *string {
	if *text == "" {
		return nil
	}
	return text
}
