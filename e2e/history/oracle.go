// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"iter"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// This file computes, as simply as possible, which endpoints a member's Service has: no
// index, no state, and no code shared with the product that it judges.

// capacity is how many addresses Endpoints hold. Beyond it the choice of addresses is
// arbitrary and not judged.
const capacity = 1000

const optOut = "tributary.dev/replicate"

// replicated reports whether a Service of a member becomes a replica.
func replicated(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Annotations[optOut] != "false" &&
		(s.Namespace != "default" || s.Name != "kubernetes")
}

// judged reports whether the endpoints of a Service follow from pods. Those of
// a Service without a selector are written by hand.
func judged(s *corev1.Service) bool { return replicated(s) && len(s.Spec.Selector) > 0 }

// selects reports whether a pod belongs to a Service of its namespace.
func selects(s *corev1.Service, p *corev1.Pod) bool {
	return p.Namespace == s.Namespace && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels))
}

// Wanted returns the facts that one Service of a member demands, from all pods of that
// member.
func Wanted(cluster string, s *corev1.Service, pods iter.Seq[*corev1.Pod]) map[Fact]bool {
	facts := map[Fact]bool{}
	if !judged(s) {
		return facts
	}
	for p := range pods {
		if !selects(s, p) || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, place := range places(s, p) {
			for _, port := range resolve(s, p) {
				facts[Fact{
					Kind: place.kind, Replica: Key{s.Namespace, s.Name}, Cluster: cluster,
					UID: string(p.UID), IP: place.ip, Port: port, State: place.state,
				}] = true
			}
		}
	}
	return facts
}

type place struct {
	kind      Kind
	ip, state string
}

// places returns where a selected pod appears, and in which state.
func places(s *corev1.Service, p *corev1.Pod) (all []place) {
	ready := isReady(p)
	terminating, publish := p.DeletionTimestamp != nil, s.Spec.PublishNotReadyAddresses
	families := s.Spec.IPFamilies
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	for i, family := range families {
		ip, ok := addressOf(p, family)
		if !ok {
			continue
		}
		state := Conditions(ready && !terminating || publish, ready, terminating)
		all = append(all, place{EndpointSlice, ip, state})
		if i > 0 || terminating && !publish {
			continue // Endpoints have one family, and no terminating pods
		}
		state = NotReady
		if ready || publish {
			state = Ready
		}
		all = append(all, place{Endpoints, ip, state})
	}
	return all
}

// Conditions formats the conditions of a slice's endpoint.
func Conditions(ready, serving, terminating bool) string {
	text := ""
	for _, c := range []struct {
		name string
		set  bool
	}{{"ready", ready}, {"serving", serving}, {"terminating", terminating}} {
		if c.set && text != "" {
			text += "+"
		}
		if c.set {
			text += c.name
		}
	}
	if text == "" {
		return "off"
	}
	return text
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// addressOf returns the pod's address of a family, if it is valid for an endpoint.
func addressOf(p *corev1.Pod, family corev1.IPFamily) (string, bool) {
	addresses := p.Status.PodIPs
	if len(addresses) == 0 {
		addresses = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	for _, a := range addresses {
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || ip.Is4() != (family == corev1.IPv4Protocol) {
			continue
		}
		bad := ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.Is4In6()
		return a.IP, !bad
	}
	return "", false
}

// resolve returns the ports of a Service that a pod serves. A Service without ports still
// has one fact for each pod.
func resolve(s *corev1.Service, p *corev1.Pod) (ports []string) {
	if len(s.Spec.Ports) == 0 {
		return []string{""}
	}
	for i := range s.Spec.Ports {
		want := &s.Spec.Ports[i]
		if number, ok := target(want, p); ok {
			ports = append(ports, port(number, want.Name, string(want.Protocol)))
		}
	}
	return ports
}

func target(want *corev1.ServicePort, p *corev1.Pod) (int32, bool) {
	if want.TargetPort.Type == intstr.Int {
		if n := want.TargetPort.IntVal; n != 0 {
			return n, true
		}
		return want.Port, true
	}
	containers := append([]corev1.Container{}, p.Spec.Containers...)
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, has := range c.Ports {
			if has.Name == want.TargetPort.StrVal && has.Protocol == want.Protocol {
				return has.ContainerPort, true
			}
		}
	}
	return 0, false
}

// Labels and annotations of the objects that tributary owns.
const (
	managedBy     = "app.kubernetes.io/managed-by"
	ofInstance    = "tributary.dev/instance"
	ofReplica     = "tributary.dev/replica"
	sourceCluster = "multicluster.kubernetes.io/source-cluster"
)

// Installation names one of several in an ingress cluster; "" stands for all.
type Installation string

// owns reports whether an object of the ingress cluster is the installation's.
func (i Installation) owns(object metav1.Object) bool {
	return marked(object) && (i == "" || object.GetLabels()[ofInstance] == string(i))
}

// marked reports whether an object of the ingress cluster is some installation's.
func marked(object metav1.Object) bool {
	switch o := object.(type) {
	case *corev1.Service:
		return markedAs(o, o.Name)
	case *corev1.Endpoints:
		return markedAs(o, o.Name)
	case *discoveryv1.EndpointSlice:
		return markedAs(o, o.Labels[discoveryv1.LabelServiceName])
	}
	return false
}

// markedAs reports whether an object is marked as part of a replica. A copy under another
// name is not.
func markedAs(o metav1.Object, replica string) bool {
	return o.GetLabels()[managedBy] == "tributary" && o.GetAnnotations()[ofReplica] == o.GetNamespace()+"/"+replica
}
