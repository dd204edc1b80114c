// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	utilnet "k8s.io/utils/net"
)

// Deviations remove from upstream's input or output exactly what
// docs/semantics.md says we do otherwise, so that the rest must be equal. The API
// server's own validation, not ours, decides what the API refuses.

// withoutRefusals returns a copy of the case from which upstream produces nothing
// that an API server refuses (D5): pods have only their acceptable addresses, host
// names, node names and ports.
func (c *Case) withoutRefusals() *Case {
	clean := *c
	clean.Pods = slices.Clone(c.Pods)
	for i, p := range c.Pods {
		if cleaned := cleanPod(c.Service, p); cleaned != nil {
			clean.Pods[i] = cleaned
		}
	}
	return &clean
}

// cleanPod returns the pod without refused parts, nil if there are none.
func cleanPod(s *corev1.Service, pod *corev1.Pod) *corev1.Pod {
	refusedIP := func(ip corev1.PodIP) bool {
		return len(corevalidation.ValidateEndpointIP(ip.IP, field.NewPath("ip"))) > 0
	}
	badIP := slices.ContainsFunc(pod.Status.PodIPs, refusedIP)
	badHost := pod.Spec.Hostname != "" && len(validation.IsDNS1123Label(pod.Spec.Hostname)) > 0
	badNode := pod.Spec.NodeName != "" && len(corevalidation.ValidateNodeName(pod.Spec.NodeName, false)) > 0
	badPorts := refusedPorts(s, pod)
	if !badIP && !badHost && !badNode && len(badPorts) == 0 {
		return nil
	}
	pod = pod.DeepCopy()
	pod.Status.PodIPs = slices.DeleteFunc(pod.Status.PodIPs, refusedIP)
	if badHost {
		pod.Spec.Hostname = ""
	}
	if badNode {
		pod.Spec.NodeName = ""
	}
	for _, bad := range badPorts {
		for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			for i := range containers {
				containers[i].Ports = slices.DeleteFunc(containers[i].Ports, func(p corev1.ContainerPort) bool {
					return p.Name == bad.Name && p.Protocol == bad.Protocol
				})
			}
		}
	}
	return pod
}

// refusedPorts returns the container ports that a Service port resolves to and
// whose number is invalid in Endpoints.
func refusedPorts(s *corev1.Service, pod *corev1.Pod) []corev1.ContainerPort {
	var refused []corev1.ContainerPort
	for i := range s.Spec.Ports {
		want := &s.Spec.Ports[i]
		for p := range eligiblePorts(pod) {
			if p.Name == want.TargetPort.StrVal && p.Protocol == want.Protocol {
				if len(validation.IsValidPortNum(int(p.ContainerPort))) > 0 {
					refused = append(refused, p)
				}
				break
			}
		}
	}
	return refused
}

// eligiblePorts yields the ports that names resolve to, in the order of search.
func eligiblePorts(pod *corev1.Pod) func(yield func(corev1.ContainerPort) bool) {
	return func(yield func(corev1.ContainerPort) bool) {
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if !yield(p) {
					return
				}
			}
		}
		for _, c := range pod.Spec.InitContainers {
			if c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
				continue
			}
			for _, p := range c.Ports {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// withOneAddress returns the case with the first address of each family only:
// upstream puts all of them into one endpoint of a slice, but no API server accepts
// such a pod.
func (c *Case) withOneAddress() *Case {
	one := *c
	one.Pods = slices.Clone(c.Pods)
	for i, p := range c.Pods {
		if len(p.Status.PodIPs) < 2 {
			continue
		}
		p = p.DeepCopy()
		var seen [2]bool
		p.Status.PodIPs = slices.DeleteFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool {
			family := &seen[0]
			if utilnet.IsIPv6(utilnet.ParseIPSloppy(ip.IP)) {
				family = &seen[1]
			}
			drop := *family
			*family = true
			return drop
		})
		one.Pods[i] = p
	}
	return &one
}

// withSilentServing returns the case for upstream: where only pods of silent nodes could
// serve, they are ready, because we let them serve as reserves.
func (c *Case) withSilentServing(o *Ours) *Case {
	if o.Sound() || c.Service.Spec.PublishNotReadyAddresses {
		return c
	}
	serving := *c
	serving.Pods = slices.Clone(c.Pods)
	for i, p := range c.Pods {
		at := slices.IndexFunc(p.Status.Conditions, func(x corev1.PodCondition) bool { return x.Type == corev1.PodReady })
		if at < 0 || !nodeIsSilent(p, &p.Status.Conditions[at]) {
			continue
		}
		serving.Pods[i] = p.DeepCopy()
		serving.Pods[i].Status.Conditions[at].Status = corev1.ConditionTrue
	}
	return &serving
}

// nodeIsSilent reports whether the node controller marked a pod as not ready, and not its
// kubelet, which would set a reason. No case has readiness gates.
func nodeIsSilent(p *corev1.Pod, ready *corev1.PodCondition) bool {
	return p.DeletionTimestamp == nil && ready.Status == corev1.ConditionFalse && ready.Reason == "" &&
		slices.ContainsFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
			return x.Type == corev1.ContainersReady && x.Status == corev1.ConditionTrue
		})
}

// forgiveSubsets removes from upstream's subsets those without any address,
// which truncation leaves and the API refuses (D2), and node names that point
// to nothing (D6).
func forgiveSubsets(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	subsets = slices.DeleteFunc(subsets, func(s corev1.EndpointSubset) bool {
		return len(s.Addresses)+len(s.NotReadyAddresses) == 0
	})
	for i := range subsets {
		for _, list := range [][]corev1.EndpointAddress{subsets[i].Addresses, subsets[i].NotReadyAddresses} {
			for j := range list {
				if list[j].NodeName != nil && *list[j].NodeName == "" {
					list[j].NodeName = nil
				}
			}
		}
	}
	return subsets
}

// forgiveSlices drops upstream's slices without ports, which have the pods that
// have none of the Service's ports, but retains an empty slice of each family. A
// headless Service without ports rightly has them.
func forgiveSlices(s *corev1.Service, list []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP == corev1.ClusterIPNone {
		return list
	}
	var remaining []*discoveryv1.EndpointSlice
	families := map[discoveryv1.AddressType]bool{}
	for _, slice := range list {
		if len(slice.Ports) > 0 {
			remaining = append(remaining, slice)
			families[slice.AddressType] = true
		}
	}
	for _, slice := range list {
		if !families[slice.AddressType] {
			families[slice.AddressType] = true
			remaining = append(remaining, &discoveryv1.EndpointSlice{AddressType: slice.AddressType})
		}
	}
	return remaining
}
