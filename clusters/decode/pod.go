// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package decode

import (
	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// Pod converts a pod; nil gives the zero value.
func (d *Decoder) Pod(pod *corev1.Pod) store.Versioned[syncer.Pod] {
	if pod == nil {
		return store.Versioned[syncer.Pod]{}
	}
	var matches uint64
	if d.options.Match != nil {
		matches = d.options.Match(pod)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p := syncer.Pod{
		Key:         d.key(&pod.ObjectMeta),
		UID:         string(pod.UID),
		Labels:      d.labels(pod.Labels),
		IPs:         podIPs(&pod.Status),
		Ports:       d.sharedPorts(d.namedPorts(&pod.Spec)),
		NodeName:    d.str(pod.Spec.NodeName),
		Hostname:    pod.Spec.Hostname,
		Subdomain:   d.str(pod.Spec.Subdomain),
		HostNetwork: pod.Spec.HostNetwork,
		Terminating: pod.DeletionTimestamp != nil,
		Terminal:    pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded,
		Matches:     matches,
	}
	if ready := condition(&pod.Status, corev1.PodReady); ready != nil {
		p.Ready = ready.Status == corev1.ConditionTrue
		p.ReadySince = unixSeconds(ready.LastTransitionTime)
		p.NodeSilent = nodeSilent(pod, ready)
	}
	return store.Versioned[syncer.Pod]{Object: p, Revision: store.Revision(pod.ResourceVersion), Written: written(&pod.ObjectMeta)}
}

// podIPs are status.podIPs, or status.podIP alone where a server that is older
// than dual stack left them empty.
func podIPs(status *corev1.PodStatus) []syncer.PodIP {
	if len(status.PodIPs) == 0 {
		if status.PodIP == "" {
			return nil
		}
		return []syncer.PodIP{parseIP(status.PodIP)}
	}
	ips := make([]syncer.PodIP, len(status.PodIPs))
	for i := range status.PodIPs {
		ips[i] = parseIP(status.PodIPs[i].IP)
	}
	return ips
}

// namedPorts lists what a string targetPort may resolve to, in the order of the
// search: containers, then sidecars (init containers that are restarted always).
func (d *Decoder) namedPorts(spec *corev1.PodSpec) []syncer.ContainerPort {
	var ports []syncer.ContainerPort
	add := func(c *corev1.Container) {
		for i := range c.Ports {
			if p := &c.Ports[i]; p.Name != "" {
				ports = append(ports, syncer.ContainerPort{Name: d.str(p.Name), Protocol: d.protocol(p.Protocol), Port: p.ContainerPort})
			}
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return ports
}

// condition returns the first condition of a type, as upstream's helpers do.
func condition(status *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == t {
			return &status.Conditions[i]
		}
	}
	return nil
}

// nodeSilent tells the node lifecycle controller's NotReady from the kubelet's.
// That controller only turns the status of the Ready condition: the reason stays
// as it was, empty for a pod that was ready, and ContainersReady stays True
// (pkg/controller/util/node, MarkPodsNotReady). A kubelet that turns Ready
// gives a reason, except that old ones give none for a readiness gate.
func nodeSilent(pod *corev1.Pod, ready *corev1.PodCondition) bool {
	if ready.Status != corev1.ConditionFalse || ready.Reason != "" {
		return false
	}
	containers := condition(&pod.Status, corev1.ContainersReady)
	if containers == nil || containers.Status != corev1.ConditionTrue {
		return false
	}
	for i := range pod.Spec.ReadinessGates {
		gate := condition(&pod.Status, pod.Spec.ReadinessGates[i].ConditionType)
		if gate == nil || gate.Status != corev1.ConditionTrue {
			return false
		}
	}
	return true
}
