// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import corev1 "k8s.io/api/core/v1"

// strayField is a field of a Service's spec that no replica has.
type strayField struct {
	name  string
	set   func(*corev1.ServiceSpec) bool
	clear func(*corev1.ServiceSpec)
}

// strayFields are looked for and taken away by one list, so that what is found can be
// mended. A value that a server fills in by itself is not found. The families are not
// among them: each server chooses them by rules of its own, so that nothing tells what
// was edited, and whoever looks for addresses goes by the slices.
var strayFields = []strayField{
	{"type",
		func(s *corev1.ServiceSpec) bool { return s.Type != "" && s.Type != corev1.ServiceTypeClusterIP },
		func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP }},
	{"externalName",
		func(s *corev1.ServiceSpec) bool { return s.ExternalName != "" },
		func(s *corev1.ServiceSpec) { s.ExternalName = "" }},
	{"externalIPs",
		func(s *corev1.ServiceSpec) bool { return len(s.ExternalIPs) > 0 },
		func(s *corev1.ServiceSpec) { s.ExternalIPs = nil }},
	{"externalTrafficPolicy", // filled in only beside external IPs, and refused without
		func(s *corev1.ServiceSpec) bool { return s.ExternalTrafficPolicy != "" },
		func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "" }},
	{"internalTrafficPolicy",
		func(s *corev1.ServiceSpec) bool {
			return s.InternalTrafficPolicy != nil && *s.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster
		},
		func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = nil }},
	{"trafficDistribution",
		func(s *corev1.ServiceSpec) bool { return s.TrafficDistribution != nil },
		func(s *corev1.ServiceSpec) { s.TrafficDistribution = nil }},
	{"publishNotReadyAddresses",
		func(s *corev1.ServiceSpec) bool { return s.PublishNotReadyAddresses },
		func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = false }},
	{"sessionAffinity",
		func(s *corev1.ServiceSpec) bool {
			return s.SessionAffinity != "" && s.SessionAffinity != corev1.ServiceAffinityNone
		},
		func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityNone }},
	{"sessionAffinityConfig",
		func(s *corev1.ServiceSpec) bool { return s.SessionAffinityConfig != nil },
		func(s *corev1.ServiceSpec) { s.SessionAffinityConfig = nil }},
	{"loadBalancerIP",
		func(s *corev1.ServiceSpec) bool { return s.LoadBalancerIP != "" },
		func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "" }},
	{"loadBalancerSourceRanges",
		func(s *corev1.ServiceSpec) bool { return len(s.LoadBalancerSourceRanges) > 0 },
		func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = nil }},
	{"loadBalancerClass",
		func(s *corev1.ServiceSpec) bool { return s.LoadBalancerClass != nil },
		func(s *corev1.ServiceSpec) { s.LoadBalancerClass = nil }},
	{"allocateLoadBalancerNodePorts",
		func(s *corev1.ServiceSpec) bool { return s.AllocateLoadBalancerNodePorts != nil },
		func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = nil }},
	{"healthCheckNodePort",
		func(s *corev1.ServiceSpec) bool { return s.HealthCheckNodePort != 0 },
		func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 0 }},
	{"nodePort",
		func(s *corev1.ServiceSpec) bool {
			for i := range s.Ports {
				if s.Ports[i].NodePort != 0 {
					return true
				}
			}
			return false
		},
		func(s *corev1.ServiceSpec) {
			for i := range s.Ports {
				s.Ports[i].NodePort = 0
			}
		}},
}

// Stray names the fields that are set though no replica has them.
func Stray(spec *corev1.ServiceSpec) (names []string) {
	for _, f := range strayFields {
		if f.set(spec) {
			names = append(names, f.name)
		}
	}
	return names
}

// ClearStray takes all of them away, and leaves what a server filled in.
func ClearStray(spec *corev1.ServiceSpec) {
	for _, f := range strayFields {
		if f.set(spec) {
			f.clear(spec)
		}
	}
}
