// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/syncer"
)

// acts are what happens in members: the life of pods and Services. What goes wrong, and what
// is done to the ingress cluster and to Tributary itself, is in faults.go.
var acts = slices.Concat(life, linkFaults(), faults)

var life = []act{
	{name: "wait", do: func(*world, Step) bool { return true }},
	{name: "deployment", do: func(w *world, s Step) bool { return w.deploy(s, false) }},
	{name: "set", do: func(w *world, s Step) bool { return w.deploy(s, true) }},
	{name: "across", do: func(w *world, s Step) bool { // a Service of pods of several workloads
		c := w.pick(s)
		c.service(namespaces[s.B%2], "all", map[string]string{"tier": "all"})
		return true
	}},
	{name: "by-hand", do: func(w *world, s Step) bool {
		c, namespace, name := w.pick(s), namespaces[s.B%2], "ext"
		c.service(namespace, name, nil)
		return w.writeByHand(c, namespace, name, s.C)
	}},
	{name: "many", do: func(w *world, s Step) bool { // a member of some size
		c := w.pick(s)
		for i := range 100 {
			c.service(namespaces[s.B%2], fmt.Sprintf("s%d", i), map[string]string{"app": "s"})
		}
		return true
	}},
	{name: "relabel-many", rate: 1, do: func(w *world, s Step) bool { // bulk work
		c := w.pick(s)
		for _, o := range c.all(Services, "") {
			c.edit(idOf(o), func(o Object) { o.SetLabels(map[string]string{"team": strconv.Itoa(s.C)}) })
		}
		return true
	}},
	{name: "scale", rate: 3, do: func(w *world, s Step) bool {
		return w.onWorkload(s, func(c *Cluster, l *workload) { l.replicas = s.C % 6 })
	}},
	{name: "roll-out", rate: 3, do: func(w *world, s Step) bool {
		return w.onWorkload(s, func(c *Cluster, l *workload) { l.version++ })
	}},
	{name: "break", rate: 1, do: func(w *world, s Step) bool {
		return w.onWorkload(s, func(c *Cluster, l *workload) { l.broken = !l.broken })
	}},
	{name: "flap", rate: 3, do: func(w *world, s Step) bool {
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) {
			c.turn(pod, false)
			w.until(span(s.C), func() { c.turn(pod, true) })
		})
	}},
	{name: "in-place", rate: 2, do: func(w *world, s Step) bool { // every pod turns, one after the other
		return w.onWorkload(s, func(c *Cluster, l *workload) {
			for i, pod := range c.pods(l) {
				at := time.Duration(i) * span(s.C%4)
				c.later(pod, at, func() { c.turn(pod, false) })
				c.later(pod, at+span(s.C%4), func() { c.turn(pod, true) })
			}
		})
	}},
	{name: "finish", rate: 1, do: func(w *world, s Step) bool { // an eviction, or a job's end
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) {
			c.status(pod, func(pod *corev1.Pod) {
				pod.Status.Phase = [...]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}[s.C%2]
				c.ready(pod, false, "PodFailed")
			})
			c.soon(c.workloadOf(pod))
		})
	}},
	{name: "delete", rate: 3, do: func(w *world, s Step) bool {
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) { c.stopPod(pod, s.C%3 == 0) })
	}},
	{name: "delete-all", rate: 1, do: func(w *world, s Step) bool {
		return w.onWorkload(s, func(c *Cluster, l *workload) {
			for _, pod := range c.pods(l) {
				c.stopPod(pod, s.C%2 == 0)
			}
		})
	}},
	{name: "new-address", rate: 1, do: func(w *world, s Step) bool { // a new sandbox
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) {
			ip := c.freeIP()
			c.status(pod, func(pod *corev1.Pod) { pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}} })
		})
	}},
	{name: "relabel", rate: 1, do: func(w *world, s Step) bool {
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) {
			c.edit(idOf(pod), func(o Object) {
				o.GetLabels()["tier"] = [...]string{"all", "none"}[s.C%2]
			})
		})
	}},
	{name: "silence", rate: 2, fault: true, do: func(w *world, s Step) bool {
		c, node := w.pick(s), "node-"+strconv.Itoa(s.B%nodes)
		if c.silentNode[node] {
			return false
		}
		c.hear(node, false)
		w.until(span(s.C), func() { c.hear(node, true) })
		return true
	}},
	{name: "release", rate: 3, do: func(w *world, s Step) bool { // blue and green
		return w.onWorkload(s, func(c *Cluster, l *workload) { c.release(l, span(s.C%4)) })
	}},
	{name: "switch", rate: 1, do: onService(func(svc *corev1.Service, s Step) {
		if svc.Spec.Selector != nil {
			svc.Spec.Selector["color"] = colors[s.C%2]
		}
	})},
	{name: "port", rate: 2, do: onService(func(svc *corev1.Service, s Step) {
		switch p := &svc.Spec.Ports[0]; s.C % 5 {
		case 0:
			p.Port = 80 + int32(s.C%3)
		case 1:
			p.TargetPort = intstr.FromString([...]string{"http", "admin"}[s.C/5%2])
		case 2:
			p.TargetPort = intstr.FromInt32(8080)
		case 3:
			svc.Spec.Ports = append(svc.Spec.Ports[:1:1], corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromString("admin")})
		default:
			svc.Spec.Ports = svc.Spec.Ports[:1:1]
		}
	})},
	{name: "publish", rate: 1, do: onService(func(svc *corev1.Service, s Step) { svc.Spec.PublishNotReadyAddresses = s.C%2 == 0 })},
	{name: "label", rate: 1, do: onService(func(svc *corev1.Service, s Step) { svc.Labels["team"] = strconv.Itoa(s.C % 3) })},
	{name: "replicate", rate: 1, do: onService(func(svc *corev1.Service, s Step) {
		svc.Annotations = map[string]string{syncer.AnnotationReplicate: [...]string{"false", "true"}[s.C%2]}
	})},
	{name: "selector", rate: 1, do: onService(func(svc *corev1.Service, s Step) { // to hand-written endpoints, and back
		if svc.Spec.Selector = map[string]string{"app": svc.Name}; s.C%2 == 0 {
			svc.Spec.Selector = nil
		}
	})},
	{name: "drop-service", rate: 2, do: func(w *world, s Step) bool {
		c := w.pick(s)
		svc := pickFrom(c.all(Services, ""), s.B)
		if svc == nil {
			return false
		}
		former := svc.DeepCopyObject().(*corev1.Service)
		c.remove(svc)
		w.until(span(s.C), func() {
			former.ResourceVersion, former.UID, former.Spec.ClusterIP, former.Spec.ClusterIPs = "", "", "", nil
			_, _ = c.Create(former)
		})
		return true
	}},
	{name: "write-by-hand", rate: 1, do: func(w *world, s Step) bool {
		return w.writeByHand(w.pick(s), namespaces[s.B%2], "ext", s.C)
	}},
}

var (
	namespaces = []string{"shop", "pay"}
	names      = []string{"web", "api", "db"}
	colors     = []string{"blue", "green"}
)

// pick is a member.
func (w *world) pick(s Step) *Cluster { return w.members[s.A%len(w.members)] }

func pickFrom[T any](of []T, n int) (none T) {
	if len(of) == 0 {
		return none
	}
	return of[n%len(of)]
}

// deploy makes a workload with its Service.
func (w *world) deploy(s Step, stateful bool) bool {
	c, l := w.pick(s), &workload{namespace: namespaces[s.B%2], name: names[s.B/2%3], stateful: stateful, replicas: 1 + s.C%4, slow: s.C%7 == 0}
	l.app, l.color = l.name, colors[0]
	if slices.ContainsFunc(c.workloads, func(o *workload) bool { return o.namespace == l.namespace && o.name == l.name }) {
		return false
	}
	c.service(l.namespace, l.name, map[string]string{"app": l.name})
	c.workloads = append(c.workloads, l)
	c.soon(l)
	return true
}

func (w *world) onWorkload(s Step, do func(*Cluster, *workload)) bool {
	c := w.pick(s)
	l := pickFrom(c.workloads, s.B)
	if l == nil {
		return false
	}
	do(c, l)
	c.soon(l)
	return true
}

func (w *world) onPod(s Step, do func(*Cluster, *corev1.Pod)) bool {
	c := w.pick(s)
	var live []*corev1.Pod
	for _, o := range c.all(Pods, "") {
		if pod := o.(*corev1.Pod); !finished(pod) && pod.Status.PodIP != "" {
			live = append(live, pod)
		}
	}
	pod := pickFrom(live, s.B)
	if pod != nil {
		do(c, pod)
	}
	return pod != nil
}

func onService(edit func(*corev1.Service, Step)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		svc := pickFrom(c.all(Services, ""), s.B)
		if svc == nil {
			return false
		}
		c.edit(idOf(svc), func(o Object) { edit(o.(*corev1.Service), s) })
		return true
	}
}

// writeByHand writes Endpoints as people do.
func (w *world) writeByHand(c *Cluster, namespace, name string, n int) bool {
	if c.get(ID{Services, namespace, name}) == nil {
		return false
	}
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8443, Protocol: corev1.ProtocolTCP}}}
	for i := range n % 4 {
		address := corev1.EndpointAddress{IP: fmt.Sprintf("192.168.%d.%d", c.subnet, 1+(n/4+i)%5)}
		if (n+i)%5 == 0 {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
		} else {
			subset.Addresses = append(subset.Addresses, address)
		}
	}
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if n%4 > 0 {
		e.Subsets = []corev1.EndpointSubset{subset}
	}
	if c.get(idOf(e)) == nil {
		_, err := c.Create(e)
		return err == nil
	}
	return c.edit(idOf(e), func(o Object) { o.(*corev1.Endpoints).Subsets = e.Subsets }) != nil
}
