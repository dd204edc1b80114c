// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// service is the world's record of a Service that it created.
type service struct {
	namespace, name string
	// selector is empty for hand-written endpoints.
	selector map[string]string
	headless bool
	external bool
	// endpoints is true if there are hand-written Endpoints; slices are the names
	// of hand-written EndpointSlices.
	endpoints bool
	slices    []string
}

// portChoices are the ports that Services have. Which pods have the target ports is
// in pods_test.go.
var portChoices = []corev1.ServicePort{
	{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")},
	{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")},
	{Name: "grpc", Port: 81, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("grpc"), AppProtocol: new("kubernetes.io/h2c")},
	{Name: "number", Port: 82, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080), AppProtocol: new("http")},
	{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("dns")},
	{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("dns")},
	{Name: "mesh", Port: 83, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("mesh")},
	{Name: "setup", Port: 84, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("setup")},
	{Name: "alias", Port: 85, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")},
	{Name: "sctp", Port: 86, Protocol: corev1.ProtocolSCTP, TargetPort: intstr.FromInt32(9999)},
}

// somePorts draws one to three ports; a single one sometimes has no name.
func (w *world) somePorts() []corev1.ServicePort {
	var ports []corev1.ServicePort
	names := map[string]bool{}
	for range 1 + w.rng.IntN(3) {
		p := portChoices[w.rng.IntN(len(portChoices))]
		if !names[p.Name] {
			names[p.Name] = true
			ports = append(ports, p)
		}
	}
	if len(ports) == 1 && w.chance(20) {
		ports[0].Name = ""
	}
	return ports
}

// someLabels draws labels of a Service, sometimes ones that have a meaning on Endpoints
// or slices.
func (w *world) someLabels() map[string]string {
	all := map[string]string{}
	for _, key := range []string{"team", "env", "example.com/owner"} {
		if w.chance(50) {
			all[key] = fmt.Sprintf("v%d", w.rng.IntN(4))
		}
	}
	if w.chance(10) {
		reserved := [][2]string{
			{corev1.IsHeadlessService, ""}, {"endpoints.kubernetes.io/managed-by", "someone"},
			{discoveryv1.LabelManagedBy, "someone.example.com"}, {discoveryv1.LabelServiceName, "other"},
		}[w.rng.IntN(4)]
		all[reserved[0]] = reserved[1]
	}
	if w.chance(30) {
		all["app.kubernetes.io/managed-by"] = "Helm"
	}
	return all
}

// someSelector usually selects one app of the namespace, now and then a part of
// it or a part of all.
func (w *world) someSelector() map[string]string {
	switch n := w.rng.IntN(100); {
	case n < 3:
		return map[string]string{"tier": w.tier()}
	case n < 20:
		return map[string]string{"app": w.app(), "tier": w.tier()}
	default:
		return map[string]string{"app": w.app()}
	}
}

// newService draws a Service of any kind. The caller adds its record to the world
// once it exists.
func (w *world) newService(namespace, name string) (*service, *corev1.Service) {
	record := &service{namespace: namespace, name: name}
	o := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: w.someLabels(),
			Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "example.com/note": name},
		},
		Spec: corev1.ServiceSpec{Ports: w.somePorts(), PublishNotReadyAddresses: w.chance(15)},
	}
	if w.chance(12) {
		record.headless, o.Spec.ClusterIP = true, corev1.ClusterIPNone
		if w.chance(30) {
			o.Spec.Ports = nil
		}
	}
	switch n := w.rng.IntN(100); {
	case n < 15:
		o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	case n < 20:
		o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	case n < 25:
		o.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	if w.chance(5) {
		o.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
	}
	if !w.chance(12) {
		record.selector = w.someSelector()
		o.Spec.Selector = maps.Clone(record.selector)
	}
	return record, o
}
