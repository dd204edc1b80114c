// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shown returns the facts that an object of the ingress cluster shows, if the installation
// owns it. Endpoints do not name the member: clusterOf finds it by the pod.
func (i Installation) Shown(object metav1.Object, clusterOf func(uid string) string) map[Fact]bool {
	facts := map[Fact]bool{}
	if !i.owns(object) {
		return facts
	}
	switch o := object.(type) {
	case *corev1.Endpoints:
		for i := range o.Subsets {
			subsetFacts(facts, o, &o.Subsets[i], clusterOf)
		}
	case *discoveryv1.EndpointSlice:
		for i := range o.Endpoints {
			sliceFacts(facts, o, &o.Endpoints[i])
		}
	}
	return facts
}

func subsetFacts(facts map[Fact]bool, o *corev1.Endpoints, s *corev1.EndpointSubset, clusterOf func(string) string) {
	ports := []string{""}
	for i, p := range s.Ports {
		if i == 0 {
			ports = nil
		}
		ports = append(ports, port(p.Port, p.Name, string(p.Protocol)))
	}
	add := func(list []corev1.EndpointAddress, state string) {
		for _, a := range list {
			uid := ""
			if a.TargetRef != nil {
				uid = string(a.TargetRef.UID)
			}
			for _, p := range ports {
				facts[Fact{Kind: Endpoints, Replica: Key{o.Namespace, o.Name}, Cluster: clusterOf(uid), UID: uid, IP: a.IP, Port: p, State: state}] = true
			}
		}
	}
	add(s.Addresses, Ready)
	add(s.NotReadyAddresses, NotReady)
}

func sliceFacts(facts map[Fact]bool, o *discoveryv1.EndpointSlice, e *discoveryv1.Endpoint) {
	uid := ""
	if e.TargetRef != nil {
		uid = string(e.TargetRef.UID)
	}
	set := func(c *bool) bool { return c != nil && *c }
	f := Fact{
		Kind: EndpointSlice, Replica: Key{o.Namespace, o.Labels[discoveryv1.LabelServiceName]}, Cluster: o.Labels[sourceCluster], UID: uid,
		State: Conditions(set(e.Conditions.Ready), set(e.Conditions.Serving), set(e.Conditions.Terminating)),
	}
	if e.Conditions.Ready == nil || e.Conditions.Serving == nil || e.Conditions.Terminating == nil {
		f.State = "with a condition unset"
	}
	for _, f.IP = range e.Addresses {
		if len(o.Ports) == 0 {
			facts[f] = true
		}
		for _, p := range o.Ports {
			if p.Port == nil || p.Name == nil || p.Protocol == nil {
				f.Port = "incomplete"
			} else {
				f.Port = port(*p.Port, *p.Name, string(*p.Protocol))
			}
			facts[f] = true
		}
	}
}
