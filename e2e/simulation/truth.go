// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/endpointslice"
	upstream "k8s.io/endpointslice/util"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// lastChange is when something last changed, and since which revision it is as it is. dropped is
// when a Service last did not exist.
type lastChange struct {
	at, dropped time.Duration
	since       uint64
}

// podTruth is what only the simulator knows of a member's pod. A good pod serves without a doubt;
// lastChange is that of good, dead, addr or labels. last is the revision of its last change of any kind.
type podTruth struct {
	lastChange
	cluster    *Cluster
	namespace  string
	good, dead bool
	addr       string   // the current one
	addrs      []string // all it ever had
	last       uint64
}

// observe records a change in a member.
func (w *world) observe(c *Cluster, ch model.Change) {
	switch o := ch.Object().(type) {
	case *corev1.Pod:
		p := cmp.Or(w.pods[string(o.UID)], &podTruth{cluster: c, namespace: o.Namespace})
		w.pods[string(o.UID)] = p
		ip, dead := o.Status.PodIP, ch.After == nil || finished(o)
		good := !dead && upstream.IsPodReady(o) && upstream.ShouldPodBeInEndpoints(o, false)
		if good != p.good || dead != p.dead || p.addr != ip || ch.Before != nil && !maps.Equal(ch.Before.GetLabels(), o.Labels) {
			p.lastChange = lastChange{at: w.now, since: ch.Revision}
		}
		p.last, p.addr, p.good, p.dead = ch.Revision, ip, good, dead
		p.addrs = append(p.addrs, ip)
	case *corev1.Service:
		dropped := w.now
		if was := c.services[keyOf(o)]; ch.After != nil && was != nil {
			dropped = was.dropped
		}
		c.services[keyOf(o)] = &lastChange{w.now, dropped, ch.Revision}
	case *corev1.Endpoints:
		for at := range placesOf(o) {
			w.hand[at.addr] = c.name
		}
	}
}

// back reports whether something is as the restored store has it.
func (c *Cluster) back(of *lastChange) bool { return c.store > 0 && of.since == c.began }

// wentBack records that a member's store was restored.
func (w *world) wentBack(c *Cluster) {
	c.began = c.Server.Revision
	back := lastChange{at: w.now, since: c.began}
	for _, p := range w.pods {
		if p.cluster == c {
			p.dead, p.good, p.lastChange = true, false, back
		}
	}
	for _, o := range c.All(model.Pods, "") {
		w.observe(c, model.Change{Revision: c.Server.Revision, Before: o, After: o})
	}
	for key := range c.services {
		c.services[key] = &back
	}
	maps.DeleteFunc(w.removed, func(at place, _ time.Duration) bool {
		p := w.pods[at.uid]
		return p != nil && p.cluster == c && !p.dead
	})
}

// reused is what first told a process of a live pod that has the address of a dead endpoint, nil if
// nothing has.
func (w *world) reused(at place, m *seen) (first *telling) {
	if of := w.pods[at.uid]; of == nil || !of.dead || of.cluster.name != m.name {
		return nil
	}
	for uid, p := range w.pods {
		if uid == at.uid || p.dead || p.addr != at.addr {
			continue
		}
		if told := m.stream(member.Pods, p.namespace).shown(p.last); told != nil && told.at >= p.at && !(told.list && p.cluster.lacked[uid]) && (first == nil || told.at < first.at) { // not by the store before a restore
			first = told
		}
	}
	return first
}

// ended is what told a process of the end of a pod; nil if only a list has, so that it is asked for, or nothing.
func (w *world) ended(p *Process, at place) *telling {
	pod, m := w.pods[at.uid], p.members[w.owner(at)]
	if pod == nil || !pod.dead || m == nil {
		return nil
	}
	if told := m.stream(member.Pods, pod.namespace).shown(pod.last); told != nil && !told.list {
		return told
	}
	return nil
}

// owner is the member that an endpoint belongs or belonged to, "" if there is none.
func (w *world) owner(at place) string {
	if p := w.pods[at.uid]; p != nil {
		return p.cluster.name
	}
	return w.hand[at.addr]
}

// The grades of an endpoint, the best first. An unserved one is in no class.
const (
	serves = iota
	reserve
	unserved
)

// offer is an endpoint that a member truly has for a replica.
type offer struct {
	place
	entry        // as it is where its class serves
	grade, order int
	// unsure: its grade is about to change with time. inEndpoints: it is in Endpoints, too.
	unsure, inEndpoints bool
}

// class orders endpoints that may serve, the best first.
func (e *offer) class() int { return e.grade*100 + e.order }

func keyOf(o model.Object) syncer.Key {
	return syncer.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// serviceOf is a member's Service for a replica, nil if it has none that is replicated.
func (w *world) serviceOf(c *Cluster, key syncer.Key) *corev1.Service {
	mc := w.config.Members[c.name]
	svc := model.Of[*corev1.Service](c.Server, model.Services.ID(key.Namespace, key.Name))
	if svc == nil || mc == nil || !mc.Covers(key.Namespace) || svc.Annotations[syncer.AnnotationReplicate] == "false" {
		return nil
	}
	return svc
}

// offersOf returns the endpoints that a member has for a replica, nil if it has no such Service.
func (w *world) offersOf(c *Cluster, key syncer.Key) (out []offer) {
	svc, mc := w.serviceOf(c, key), w.config.Members[c.name]
	if svc == nil {
		return nil
	}
	if svc.Spec.Selector == nil { // written by hand
		written := placesOf(c.Find(model.Endpoints.ID(key.Namespace, key.Name)))
		for _, at := range sorted(written) {
			e := offer{place: at, entry: written[at], inEndpoints: true}
			if !e.ready {
				e.grade = unserved
			}
			out = append(out, e)
		}
	}
	for _, o := range c.All(model.Pods, key.Namespace) {
		if e := (offer{grade: unserved, inEndpoints: true}); e.of(svc, o.(*corev1.Pod), mc, w.time().Add(c.skew)) {
			out = append(out, e)
		}
	}
	for i := range out {
		out[i].order = w.config.place(c.name)
		if mc.Drain {
			out[i].grade = max(out[i].grade, reserve)
		}
	}
	return out
}

func (w *world) offers(key syncer.Key) (out []offer) {
	for _, c := range w.members {
		out = append(out, w.offersOf(c, key)...)
	}
	return out
}

// of sets e to what a pod is for a Service, and reports whether it is one of its endpoints.
func (e *offer) of(svc *corev1.Service, p *corev1.Pod, mc *member.Config, now time.Time) bool {
	if svc.Spec.Selector == nil || !upstream.ShouldPodBeInEndpoints(p, true) || !labels.ValidatedSetSelector(svc.Spec.Selector).Matches(labels.Set(p.Labels)) {
		return false
	}
	e.addr, e.uid = p.Status.PodIP, string(p.UID)
	publish, said := svc.Spec.PublishNotReadyAddresses, condition(p, corev1.PodReady)
	soon := func(after time.Duration) bool {
		return after > 0 && now.Sub(said.LastTransitionTime.Time) < after+3*time.Second
	}
	switch {
	case p.DeletionTimestamp != nil:
		e.ready, e.inEndpoints = publish, publish
	case publish:
		e.ready, e.grade = true, serves
	case said.Status == corev1.ConditionTrue:
		e.ready, e.grade, e.unsure = true, serves, soon(mc.Options.StableFor)
	case said.Reason == "" && condition(p, corev1.ContainersReady).Status == corev1.ConditionTrue: // its node is silent
		e.ready, e.grade, e.unsure = true, reserve, soon(mc.Options.HoldSilentNodes)
	}
	var ports []string
	for i := range svc.Spec.Ports {
		if port, err := endpointslice.FindPort(p, &svc.Spec.Ports[i]); err == nil {
			ports = append(ports, strconv.Itoa(port))
		}
	}
	e.ports = united(ports)
	return e.ports != ""
}

// united formats a set of ports.
func united(ports []string) string {
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), " ")
}

// place identifies an endpoint: no two members have the same addresses or UIDs.
type place struct{ addr, uid string }

// String implements fmt.Stringer, with a short UID.
func (p place) String() string { return fmt.Sprintf("%s (%s)", p.addr, p.uid[min(24, len(p.uid)):]) }

// view is the endpoints in objects of one kind.
type view map[place]entry

type entry struct {
	ready         bool
	ports, member string // as a slice says
}

// add adds an endpoint, which may be in two objects.
func (v view) add(at place, e entry) {
	was := v[at]
	v[at] = entry{was.ready || e.ready, united(strings.Fields(was.ports + " " + e.ports)), e.member}
}

// placesOf returns the endpoints in one object.
func placesOf(o model.Object) view {
	out := view{}
	add := func(addr string, ref *corev1.ObjectReference, e entry) {
		at := place{addr: addr}
		if ref != nil {
			at.uid = string(ref.UID)
		}
		out.add(at, e)
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		var ports []string
		for _, p := range o.Ports {
			ports = append(ports, fmt.Sprint(*p.Port))
		}
		for i := range o.Endpoints {
			e := &o.Endpoints[i]
			add(e.Addresses[0], e.TargetRef, entry{*e.Conditions.Ready, united(ports), o.Labels[syncer.LabelSourceCluster]})
		}
	case *corev1.Endpoints:
		for _, s := range o.Subsets {
			var ports []string
			for _, p := range s.Ports {
				ports = append(ports, fmt.Sprint(p.Port))
			}
			for i, a := range slices.Concat(s.Addresses, s.NotReadyAddresses) {
				add(a.IP, a.TargetRef, entry{ready: i < len(s.Addresses), ports: united(ports)})
			}
		}
	}
	return out
}

// some reports whether any endpoint matches.
func (v view) some(is func(at place, e entry) bool) bool {
	for at, e := range v {
		if is(at, e) {
			return true
		}
	}
	return false
}

// serve reports whether any endpoint is ready, has whether it contains an endpoint, anywhere whether
// it contains an address.
func (v view) serve() bool { return v.some(func(_ place, e entry) bool { return e.ready }) }
func (v view) has(it place) bool {
	_, there := v[it]
	return there
}
func (v view) anywhere(addr string) bool {
	return v.some(func(at place, _ entry) bool { return at.addr == addr })
}

// sorted returns the keys of a map in a deterministic order.
func sorted[K comparable, V any](of map[K]V) []K {
	return slices.SortedFunc(maps.Keys(of), func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// published is what is published of a replica in objects of a kind.
func (w *world) published(kind model.Kind, key syncer.Key) view {
	out, name := view{}, key.String()
	for _, o := range w.ingress.All(kind, key.Namespace) {
		if o.GetAnnotations()[syncer.AnnotationReplica] == name && ours(o) {
			for at, e := range placesOf(o) {
				out.add(at, e)
			}
		}
	}
	return out
}

// ours reports whether an object belongs to the installation.
func ours(o model.Object) bool {
	l := o.GetLabels()
	namespace, name, _ := strings.Cut(o.GetAnnotations()[syncer.AnnotationReplica], "/")
	return l[syncer.LabelManagedBy] == syncer.ManagedBy && l[syncer.LabelInstance] == instance && namespace == o.GetNamespace() &&
		(name == o.GetName() || model.KindOf(o) == model.EndpointSlices)
}
