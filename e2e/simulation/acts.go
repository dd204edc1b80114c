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

// act is something that can happen.
type act struct {
	name string
	// rate is how often it is drawn beside others, fault tells what is wrong from what is life.
	rate  int
	fault bool
	// do reports whether anything happened.
	do func(w *world, s Step) bool
}

var acts = slices.Concat(life, faults)

func actOf(name string) *act {
	if i := slices.IndexFunc(acts, func(a act) bool { return a.name == name }); i >= 0 {
		return &acts[i]
	}
	return nil
}

// span is how long what has an end goes on.
func span(n int) time.Duration {
	return [...]time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 6 * time.Second, 15 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second}[n%8]
}

var (
	namespaces = []string{"shop", "pay"}
	names      = []string{"web", "api", "db"}
	colors     = []string{"blue", "green"}
)

// life is what happens in members. What goes wrong, and what is done to the ingress cluster and to
// Tributary itself, is in faults.go.
var life = []act{
	{"wait", 0, false, func(*world, Step) bool { return true }},
	{"deployment", 0, false, func(w *world, s Step) bool { return w.deploy(s, false) }},
	{"set", 0, false, func(w *world, s Step) bool { return w.deploy(s, true) }},
	{"across", 0, false, func(w *world, s Step) bool { // a Service of pods of several workloads
		w.pick(s).service(namespaces[s.B%2], "all", map[string]string{"tier": "all"})
		return true
	}},
	{"by-hand", 0, false, func(w *world, s Step) bool {
		w.pick(s).service(namespaces[s.B%2], "ext", nil)
		return w.writeByHand(s)
	}},
	{"write-by-hand", 1, false, (*world).writeByHand},
	{"many", 0, false, func(w *world, s Step) bool { // a member of some size
		for i := range 100 {
			w.pick(s).service(namespaces[s.B%2], fmt.Sprintf("s%d", i), map[string]string{"app": "s"})
		}
		return true
	}},
	{"relabel-many", 1, false, func(w *world, s Step) bool { // bulk work
		for _, o := range w.pick(s).all(Services, "") {
			w.pick(s).edit(idOf(o), func(o Object) { o.SetLabels(map[string]string{"team": strconv.Itoa(s.C)}) })
		}
		return true
	}},
	{"scale", 3, false, onWorkload(func(_ *world, _ *Cluster, l *workload, n int) { l.replicas = n % 6 })},
	{"roll-out", 3, false, onWorkload(func(_ *world, _ *Cluster, l *workload, _ int) { l.version++ })},
	{"break", 1, false, onWorkload(func(_ *world, _ *Cluster, l *workload, _ int) { l.broken = !l.broken })},
	{"release", 3, false, onWorkload(func(_ *world, c *Cluster, l *workload, n int) { c.release(l, span(n%4)) })}, // blue and green
	{"delete-all", 1, false, onWorkload(func(_ *world, c *Cluster, l *workload, n int) {
		for _, pod := range c.pods(l) {
			c.stopPod(pod, n%2 == 0)
		}
	})},
	{"in-place", 2, false, onWorkload(func(_ *world, c *Cluster, l *workload, n int) { // every pod turns, one after the other
		for i, pod := range c.pods(l) {
			at := time.Duration(i) * span(n%4)
			c.later(pod, at, func() { c.turn(pod, false) })
			c.later(pod, at+span(n%4), func() { c.turn(pod, true) })
		}
	})},
	{"flap", 3, false, onPod(func(w *world, c *Cluster, pod *corev1.Pod, n int) {
		c.turn(pod, false)
		w.until(span(n), func() { c.turn(pod, true) })
	})},
	{"finish", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) { // an eviction, or a job's end
		c.status(pod, func(pod *corev1.Pod) {
			pod.Status.Phase = [...]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}[n%2]
			c.ready(pod, false)
		})
		c.soon(c.workloadOf(pod))
	})},
	{"delete", 3, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) { c.stopPod(pod, n%3 == 0) })},
	{"new-address", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, _ int) { c.move(pod) })}, // a new sandbox
	{"relabel", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) {
		c.edit(idOf(pod), func(o Object) { o.GetLabels()["tier"] = [...]string{"all", "none"}[n%2] })
	})},
	{"silence", 2, true, func(w *world, s Step) bool {
		c, node := w.pick(s), "node-"+strconv.Itoa(s.B%nodes)
		if c.silentNode[node] {
			return false
		}
		c.hear(node, false)
		w.until(span(s.C), func() { c.hear(node, true) })
		return true
	}},
	{"switch", 1, false, onService(func(svc *corev1.Service, n int) {
		if svc.Spec.Selector != nil {
			svc.Spec.Selector["color"] = colors[n%2]
		}
	})},
	{"port", 2, false, onService(func(svc *corev1.Service, n int) {
		switch p := &svc.Spec.Ports[0]; n % 5 {
		case 0:
			p.Port = 80 + int32(n%3)
		case 1:
			p.TargetPort = intstr.FromString([...]string{"http", "admin"}[n/5%2])
		case 2:
			p.TargetPort = intstr.FromInt32(8080)
		case 3:
			svc.Spec.Ports = append(svc.Spec.Ports[:1:1], corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 9090, TargetPort: intstr.FromString("admin")})
		default:
			svc.Spec.Ports = svc.Spec.Ports[:1:1]
		}
	})},
	{"publish", 1, false, onService(func(svc *corev1.Service, n int) { svc.Spec.PublishNotReadyAddresses = n%2 == 0 })},
	{"label", 1, false, onService(func(svc *corev1.Service, n int) { svc.Labels["team"] = strconv.Itoa(n % 3) })},
	{"replicate", 1, false, onService(func(svc *corev1.Service, n int) {
		svc.Annotations = map[string]string{syncer.AnnotationReplicate: [...]string{"false", "true"}[n%2]}
	})},
	{"selector", 1, false, onService(func(svc *corev1.Service, n int) { // to hand-written endpoints, and back
		if svc.Spec.Selector = map[string]string{"app": svc.Name}; n%2 == 0 {
			svc.Spec.Selector = nil
		}
	})},
	{"drop-service", 2, false, func(w *world, s Step) bool {
		c := w.pick(s)
		svc, ok := pickFrom(c.all(Services, ""), s.B).(*corev1.Service)
		if ok {
			former := svc.DeepCopy()
			c.remove(svc)
			w.until(span(s.C), func() {
				former.ResourceVersion, former.UID, former.Spec.ClusterIP, former.Spec.ClusterIPs = "", "", "", nil
				_, _ = c.Create(former)
			})
		}
		return ok
	}},
}

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

func onWorkload(do func(w *world, c *Cluster, l *workload, n int)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		l := pickFrom(c.workloads, s.B)
		if l != nil {
			do(w, c, l, s.C)
			c.soon(l)
		}
		return l != nil
	}
}

func onPod(do func(w *world, c *Cluster, pod *corev1.Pod, n int)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		live := slices.DeleteFunc(slices.Clone(c.all(Pods, "")), func(o Object) bool { return finished(o.(*corev1.Pod)) || o.(*corev1.Pod).Status.PodIP == "" })
		pod, ok := pickFrom(live, s.B).(*corev1.Pod)
		if ok {
			do(w, c, pod, s.C)
		}
		return ok
	}
}

func onService(edit func(svc *corev1.Service, n int)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		svc := pickFrom(c.all(Services, ""), s.B)
		return svc != nil && c.edit(idOf(svc), func(o Object) { edit(o.(*corev1.Service), s.C) }) != nil
	}
}

// writeByHand writes Endpoints as people do.
func (w *world) writeByHand(s Step) bool {
	c, id := w.pick(s), ID{Endpoints, namespaces[s.B%2], "ext"}
	if c.get(ID{Services, id.Namespace, id.Name}) == nil {
		return false
	}
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "http", Port: 8443, Protocol: corev1.ProtocolTCP}}}
	for i := range s.C % 4 {
		address := corev1.EndpointAddress{IP: fmt.Sprintf("192.168.%d.%d", c.subnet, 1+(s.C/4+i)%5)}
		if (s.C+i)%5 == 0 {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, address)
		} else {
			subset.Addresses = append(subset.Addresses, address)
		}
	}
	_, _ = c.Create(&corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name}})
	return c.edit(id, func(o Object) {
		if o.(*corev1.Endpoints).Subsets = nil; s.C%4 > 0 {
			o.(*corev1.Endpoints).Subsets = []corev1.EndpointSubset{subset}
		}
	}) != nil
}
