// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod is the world's record of a pod that it created.
type pod struct {
	namespace, name string
	ips             []corev1.PodIP
	ready           bool
	// pending pods have no address yet.
	pending, terminating, finished bool
}

// lives reports whether the pod's readiness has an effect.
func (p *pod) lives() bool { return !p.pending && !p.terminating && !p.finished }

const zones, nodes = 3, 6

func nodeName(n int) string { return fmt.Sprintf("node-%d", n) }

// newPod draws a pod: an app, a node, addresses of one family or both, and
// ports that differ from pod to pod.
func (w *world) newPod(namespace string) (*pod, *corev1.Pod) {
	w.next++
	o := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("pod-%d", w.next), Labels: map[string]string{"app": w.app(), "tier": w.tier()},
		},
		Spec: corev1.PodSpec{NodeName: nodeName(w.rng.IntN(nodes)), Containers: w.someContainers()},
	}
	if w.chance(30) {
		o.Spec.InitContainers = []corev1.Container{{
			Name: "mesh", Image: "registry.example/mesh:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Ports: []corev1.ContainerPort{{Name: "mesh", ContainerPort: 15001}, {Name: "grpc", ContainerPort: 15002}},
		}}
	}
	if w.chance(20) {
		o.Spec.InitContainers = append(o.Spec.InitContainers, corev1.Container{
			Name: "setup", Image: "registry.example/setup:1",
			Ports: []corev1.ContainerPort{{Name: "setup", ContainerPort: 7000}, {Name: "http", ContainerPort: 7001}},
		})
	}
	if w.chance(30) {
		o.Spec.Hostname = o.Name
		if s := w.anyService(func(s *service) bool { return s.namespace == namespace }); s != nil && w.chance(80) {
			o.Spec.Subdomain = s.name
		}
	}
	o.Status.PodIPs = w.someIPs()
	w.subject = key{namespace, o.Name}
	return &pod{namespace: namespace, name: o.Name, ips: o.Status.PodIPs}, o
}

func (w *world) someContainers() []corev1.Container {
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: protocol}
	}
	app := corev1.Container{Name: "app", Image: "registry.example/app:1"}
	if !w.chance(10) {
		app.Ports = append(app.Ports, port("http", 8080+int32(w.rng.IntN(3)), corev1.ProtocolTCP))
	}
	if w.chance(40) {
		app.Ports = append(app.Ports, port("grpc", 9000+int32(w.rng.IntN(2)), corev1.ProtocolTCP))
	}
	if w.chance(40) {
		app.Ports = append(app.Ports, port("dns", 5353, corev1.ProtocolUDP))
	}
	containers := []corev1.Container{app}
	if w.chance(30) {
		containers = append(containers, corev1.Container{Name: "second", Image: "registry.example/second:1",
			Ports: []corev1.ContainerPort{port("dns", 5454, corev1.ProtocolTCP), port("http", 8090, corev1.ProtocolTCP)}})
	}
	return containers
}

// someIPs draws a pod's addresses. Now and then they are another pod's, as when
// an address is reused while its former owner still terminates.
func (w *world) someIPs() []corev1.PodIP {
	if w.chance(4) && len(w.pods) > 0 {
		return w.pods[w.rng.IntN(len(w.pods))].ips
	}
	four, six := corev1.PodIP{IP: w.member.NextIP().String()}, corev1.PodIP{IP: w.nextIPv6()}
	switch n := w.rng.IntN(100); {
	case n < 60:
		return []corev1.PodIP{four}
	case n < 85:
		return []corev1.PodIP{four, six}
	case n < 95:
		return []corev1.PodIP{six, four}
	default:
		return []corev1.PodIP{six}
	}
}

func (w *world) nextIPv6() string {
	w.next++
	return fmt.Sprintf("fd00:32::%x", w.next)
}

func (w *world) app() string  { return fmt.Sprintf("app-%d", w.rng.IntN(w.apps)) }
func (w *world) tier() string { return string(rune('a' + w.rng.IntN(2))) }
