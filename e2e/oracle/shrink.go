// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// shrinkTime bounds the search: a case of thousands of pods takes long to run.
const shrinkTime = 20 * time.Second

// Shrink returns the smallest case it finds that still fails: it drops pods, halves
// first, then ports, addresses and labels, as long as fails is true.
func Shrink(c *Case, fails func(*Case) bool) *Case {
	deadline := time.Now().Add(shrinkTime)
	stillFails := func(smaller *Case) bool { return time.Now().Before(deadline) && fails(smaller) }
	for size := len(c.Pods) / 2; size > 0; size /= 2 {
		for from := 0; from < len(c.Pods); {
			smaller := c.edit(func(e *Case) { e.Pods = slices.Delete(e.Pods, from, min(from+size, len(e.Pods))) })
			if stillFails(smaller) {
				c = smaller
			} else {
				from += size
			}
		}
	}
	for again := true; again; {
		again = false
		for _, simplify := range c.simplifications() {
			if smaller := c.edit(simplify); stillFails(smaller) {
				c, again = smaller, true
				break
			}
		}
	}
	return c
}

// edit returns a changed copy.
func (c *Case) edit(change func(*Case)) *Case {
	e := *c
	e.Service = c.Service.DeepCopy()
	e.Pods = make([]*corev1.Pod, len(c.Pods))
	for i, p := range c.Pods {
		e.Pods[i] = p.DeepCopy()
	}
	change(&e)
	return &e
}

// simplifications lists what can still be dropped from a case.
func (c *Case) simplifications() []func(*Case) {
	var list []func(*Case)
	for i := range c.Service.Spec.Ports {
		list = append(list, func(e *Case) { e.Service.Spec.Ports = slices.Delete(e.Service.Spec.Ports, i, i+1) })
		if c.Service.Spec.Ports[i].AppProtocol != nil {
			list = append(list, func(e *Case) { e.Service.Spec.Ports[i].AppProtocol = nil })
		}
	}
	if len(c.Service.Labels) > 0 {
		list = append(list, func(e *Case) { e.Service.Labels = nil })
	}
	if c.Service.Spec.PublishNotReadyAddresses {
		list = append(list, func(e *Case) { e.Service.Spec.PublishNotReadyAddresses = false })
	}
	for i, p := range c.Pods {
		list = append(list, podSimplifications(i, p)...)
	}
	return list
}

func podSimplifications(i int, p *corev1.Pod) []func(*Case) {
	var list []func(*Case)
	for j := range p.Status.PodIPs {
		list = append(list, func(e *Case) { e.Pods[i].Status.PodIPs = slices.Delete(e.Pods[i].Status.PodIPs, j, j+1) })
	}
	for j := range p.Spec.Containers {
		list = append(list, func(e *Case) { e.Pods[i].Spec.Containers = slices.Delete(e.Pods[i].Spec.Containers, j, j+1) })
	}
	for j := range p.Spec.InitContainers {
		list = append(list, func(e *Case) { e.Pods[i].Spec.InitContainers = slices.Delete(e.Pods[i].Spec.InitContainers, j, j+1) })
	}
	if p.DeletionTimestamp != nil {
		list = append(list, func(e *Case) { e.Pods[i].DeletionTimestamp = nil })
	}
	if p.Spec.Hostname != "" {
		list = append(list, func(e *Case) { e.Pods[i].Spec.Hostname = "" })
	}
	if p.Spec.NodeName != "" {
		list = append(list, func(e *Case) { e.Pods[i].Spec.NodeName = "" })
	}
	if p.Status.Phase != corev1.PodRunning {
		list = append(list, func(e *Case) { e.Pods[i].Status.Phase = corev1.PodRunning })
	}
	return list
}
