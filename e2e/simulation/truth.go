// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/syncer"
)

// truth is what only the simulator knows of a member: what is, since when, and what ever was.
type truth struct {
	pods     map[string]*podTruth // by UID
	services map[syncer.Key]*lately
	// hand are all addresses that were ever written by hand.
	hand map[string]bool
	// restored is when the store last went back.
	restored time.Duration
	offers   map[syncer.Key][]offer // as of revision
	revision uint64
	config   *Config
}

// lately is when something last changed, and at which revision it was first as it is.
type lately struct {
	at    time.Duration
	since uint64
	// dropped is when a Service was last not there.
	dropped time.Duration
}

// podTruth is what is known of a pod. Lately is about whether it is good: it serves, and
// nobody has a doubt.
type podTruth struct {
	lately
	good, dead bool
	addr       string   // now
	addrs      []string // and ever
	last       uint64   // the revision of its last change
}

func newTruth() *truth {
	return &truth{pods: map[string]*podTruth{}, services: map[syncer.Key]*lately{}, hand: map[string]bool{}}
}

// observe takes a change of a member in.
func (t *truth) observe(now time.Duration, c change) {
	o := c.after
	if o == nil {
		o = c.before
	}
	switch o := o.(type) {
	case *corev1.Pod:
		p := t.pods[string(o.UID)]
		if p == nil {
			p = &podTruth{}
			t.pods[string(o.UID)] = p
		}
		good := c.after != nil && isReady(o) && o.DeletionTimestamp == nil && !finished(o) && o.Status.PodIP != ""
		ip := o.Status.PodIP
		if good != p.good || p.addr != ip {
			p.lately = lately{at: now, since: c.revision}
		}
		p.last = c.revision
		p.addr, p.good, p.dead = ip, good, c.after == nil || finished(o)
		if ip != "" && !slices.Contains(p.addrs, ip) {
			p.addrs = append(p.addrs, ip)
		}
	case *corev1.Service:
		key := syncer.Key{Namespace: o.Namespace, Name: o.Name}
		dropped := now
		if was := t.services[key]; c.after != nil && was != nil {
			dropped = was.dropped
		}
		t.services[key] = &lately{now, c.revision, dropped}
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			for _, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				t.hand[a.IP] = true
			}
		}
	}
}

// wasRestored reports whether the store went back not long ago.
func (t *truth) wasRestored(now time.Duration) bool {
	return t.restored != 0 && now-t.restored < restores
}

// wentBack takes in that the store was restored.
func (t *truth) wentBack(c *Cluster) {
	t.restored, t.offers = c.now, nil
	for _, p := range t.pods {
		p.dead, p.good, p.lately = true, false, lately{at: c.now, since: c.Server.revision}
	}
	for _, o := range c.all(Pods, "") {
		t.observe(c.now, change{c.Server.revision, o, o})
	}
	for key := range t.services {
		t.services[key] = &lately{at: c.now, since: c.Server.revision}
	}
}

// reused is what first told a process of a live pod other than that of an endpoint that has its
// address; nil: nothing has.
func (t *truth) reused(at place, m *seen, namespace string) (first *telling) {
	if of := t.pods[at.uid]; of == nil || !of.dead {
		return nil
	}
	for uid, p := range t.pods {
		if uid == at.uid || p.dead || p.addr != at.addr {
			continue
		}
		if told := m.shown(namespace, p.last); told != nil && (first == nil || told.at < first.at) {
			first = told
		}
	}
	return first
}

// grade is how far an endpoint is trusted, the best first; what is in no class does not serve.
type grade uint8

const (
	serves grade = iota
	reserve
	unserved
)

// offer is an endpoint that a member has for a replica by its truth.
type offer struct {
	member, addr, uid string
	grade             grade
	place             int
	// ready is the condition where its class serves, terminating is one; unsure is true where
	// time alone decides soon whether it serves. ports are the numbers.
	ready, terminating, unsure bool
	ports                      string
	endpoints, slices          bool // the kinds of object that it is in
}

// offersOf are the endpoints that a member has for a replica; nil where it has no such Service.
func (w *world) offersOf(c *Cluster, key syncer.Key) []offer {
	t := w.truths[c.name]
	if t.offers == nil || t.revision != c.Server.revision || t.config != w.config {
		t.offers, t.revision, t.config = map[syncer.Key][]offer{}, c.Server.revision, w.config
	}
	offers, known := t.offers[key]
	if !known {
		offers = w.offersNow(c, key)
		t.offers[key] = offers
	}
	return offers
}

func keyOf(o Object) syncer.Key { return syncer.Key{Namespace: o.GetNamespace(), Name: o.GetName()} }

// serviceOf is the Service that counts for a replica; nil: none does.
func (w *world) serviceOf(c *Cluster, key syncer.Key) *corev1.Service {
	mc := w.config.member(c.name)
	svc, _ := c.get(ID{Services, key.Namespace, key.Name}).(*corev1.Service)
	if svc == nil || mc == nil || !mc.covers(key.Namespace) || svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Annotations[syncer.AnnotationReplicate] == "false" {
		return nil
	}
	return svc
}

func (w *world) offersNow(c *Cluster, key syncer.Key) []offer {
	svc, mc := w.serviceOf(c, key), w.config.member(c.name)
	if svc == nil {
		return nil
	}
	out := []offer{}
	if svc.Spec.Selector == nil {
		out = handWritten(c, key)
	}
	for _, o := range c.all(Pods, key.Namespace) {
		pod := o.(*corev1.Pod)
		if svc.Spec.Selector == nil || finished(pod) || pod.Status.PodIP == "" || !selects(svc.Spec.Selector, pod.Labels) {
			continue
		}
		ports := portsOf(svc, pod)
		if ports == "" {
			continue
		}
		e := offer{addr: pod.Status.PodIP, uid: string(pod.UID), ports: ports, slices: true, endpoints: true, grade: unserved}
		publish, ready := svc.Spec.PublishNotReadyAddresses, isReady(pod)
		said, runs := condition(pod, corev1.PodReady), condition(pod, corev1.ContainersReady)
		silent := said.Status == corev1.ConditionFalse && said.Reason == "" && runs.Status == corev1.ConditionTrue
		switch {
		case pod.DeletionTimestamp != nil:
			e.ready, e.terminating, e.endpoints = publish, true, publish
		case publish:
			e.ready, e.grade = true, serves
		case ready:
			e.ready, e.grade, e.unsure = true, serves, mc.StableFor > 0 && c.clock().Sub(since(pod)) < mc.StableFor+3*time.Second
		case silent:
			e.ready, e.grade, e.unsure = true, reserve, mc.Hold > 0 && c.clock().Sub(since(pod)) < mc.Hold+3*time.Second
		}
		out = append(out, e)
	}
	for i := range out {
		e := &out[i]
		e.member, e.place = c.name, w.config.place(c.name)
		if mc.Drain {
			e.grade = max(e.grade, reserve)
		}
	}
	return out
}

// class orders what serves; the best is the lowest.
func (e *offer) class() int { return int(e.grade)*100 + e.place }

func since(pod *corev1.Pod) time.Time { return condition(pod, corev1.PodReady).LastTransitionTime.Time }

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// portsOf are the numbers of a Service's ports in a pod; "" where it has none of them.
func portsOf(svc *corev1.Service, pod *corev1.Pod) string {
	var numbers []int32
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.TargetPort.Type == intstr.Int {
			numbers = append(numbers, cmp.Or(p.TargetPort.IntVal, p.Port))
			continue
		}
		of := pod.Spec.Containers[0].Ports
		if at := slices.IndexFunc(of, func(o corev1.ContainerPort) bool { return o.Name == p.TargetPort.StrVal && o.Protocol == p.Protocol }); at >= 0 {
			numbers = append(numbers, of[at].ContainerPort)
		}
	}
	return portText(numbers)
}

func portText(numbers []int32) string {
	slices.Sort(numbers)
	return strings.Trim(fmt.Sprint(slices.Compact(numbers)), "[]")
}

// handWritten are the endpoints of a Service without a selector.
func handWritten(c *Cluster, key syncer.Key) []offer {
	out := []offer{}
	for _, at := range sortedPlaces(placesOf(c.get(ID{Endpoints, key.Namespace, key.Name}))) {
		e := placesOf(c.get(ID{Endpoints, key.Namespace, key.Name}))[at]
		o := offer{addr: at.addr, ports: e.ports, endpoints: true, slices: true, ready: e.ready, grade: unserved}
		if e.ready {
			o.grade = serves
		}
		out = append(out, o)
	}
	return out
}

// place is an endpoint that stands: in Endpoints nobody's in particular.
type place struct{ member, addr, uid string }

// String names it for people.
func (p place) String() string { return fmt.Sprintf("%s %s (%s)", p.member, p.addr, p.uid) }

// entry is how it stands.
type entry struct {
	ready, terminating bool
	ports              string
}

// placesOf reads what stands in one object.
func placesOf(o Object) view {
	out := view{}
	add := func(member, addr string, ref *corev1.ObjectReference, e entry) {
		at := place{member: member, addr: addr}
		if ref != nil {
			at.uid = string(ref.UID)
		}
		out[at] = join(out[at], e)
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		var numbers []int32
		for _, p := range o.Ports {
			numbers = append(numbers, *p.Port)
		}
		ports := portText(numbers)
		for i := range o.Endpoints {
			e := &o.Endpoints[i]
			add(o.Labels[syncer.LabelSourceCluster], e.Addresses[0], e.TargetRef, entry{*e.Conditions.Ready, *e.Conditions.Terminating, ports})
		}
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			var numbers []int32
			for _, p := range s.Ports {
				numbers = append(numbers, p.Port)
			}
			ports := portText(numbers)
			for i, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				add("", a.IP, a.TargetRef, entry{ready: i < len(s.Addresses), ports: ports})
			}
		}
	}
	return out
}

// join is how an endpoint stands that is in two objects.
func join(a, b entry) entry {
	if a.ports == "" {
		return b
	}
	var numbers []int32
	for _, text := range strings.Fields(a.ports + " " + b.ports) {
		n, _ := strconv.Atoi(text)
		numbers = append(numbers, int32(n))
	}
	return entry{a.ready || b.ready, a.terminating || b.terminating, portText(numbers)}
}

// view is what stands of a replica in one kind of object.
type view map[place]entry

// serve reports whether anything stands ready.
func serve(v view) bool {
	for _, e := range v {
		if e.ready {
			return true
		}
	}
	return false
}

// has reports whether an endpoint stands, whoever's it is.
func (v view) has(at place) bool {
	for other := range v {
		if other.addr == at.addr && other.uid == at.uid {
			return true
		}
	}
	return false
}

// stands are the two views of a replica: slices, and Endpoints; nil where there are none.
func (w *world) stands(key syncer.Key) (slices, endpoints view) {
	slices = view{}
	for _, o := range w.ingress.all(EndpointSlices, key.Namespace) {
		if o.GetLabels()[syncer.LabelServiceName] == key.Name && ours(o) {
			for at, e := range placesOf(o) {
				slices[at] = join(slices[at], e)
			}
		}
	}
	if o := w.ingress.get(ID{Endpoints, key.Namespace, key.Name}); o != nil && ours(o) {
		endpoints = placesOf(o)
	}
	return slices, endpoints
}

// ours reports whether an object is the installation's.
func ours(o Object) bool {
	l := o.GetLabels()
	namespace, name, _ := strings.Cut(o.GetAnnotations()[syncer.AnnotationReplica], "/")
	return l[syncer.LabelManagedBy] == syncer.ManagedBy && l[syncer.LabelInstance] == instance && namespace == o.GetNamespace() &&
		(name == o.GetName() || kindOf(o) == EndpointSlices)
}
