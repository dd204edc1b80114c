// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// lately is when something last changed, and at which revision it was first as it is. dropped is
// when a Service was last not there.
type lately struct {
	at, dropped time.Duration
	since       uint64
}

// podTruth is what only the simulator knows of a member's pod. lately is about whether it is good: it
// serves, and nobody has a doubt; and about its labels. last is the revision of its last change.
type podTruth struct {
	lately
	cluster    *Cluster
	good, dead bool
	addr       string   // now
	addrs      []string // and ever
	last       uint64
}

// observe takes a change of a member in.
func (w *world) observe(c *Cluster, ch model.Change) {
	switch o := ch.Object().(type) {
	case *corev1.Pod:
		p := w.pods[string(o.UID)]
		if p == nil {
			p = &podTruth{cluster: c}
			w.pods[string(o.UID)] = p
		}
		ip := o.Status.PodIP
		good := ch.After != nil && isReady(o) && o.DeletionTimestamp == nil && !finished(o) && ip != ""
		if good != p.good || p.addr != ip || ch.Before != nil && !maps.Equal(ch.Before.GetLabels(), o.Labels) {
			p.lately = lately{at: w.now, since: ch.Revision}
		}
		p.last, p.addr, p.good, p.dead = ch.Revision, ip, good, ch.After == nil || finished(o)
		p.addrs = append(p.addrs, ip)
	case *corev1.Service:
		dropped := w.now
		if was := c.services[keyOf(o)]; ch.After != nil && was != nil {
			dropped = was.dropped
		}
		c.services[keyOf(o)] = &lately{w.now, dropped, ch.Revision}
	case *corev1.Endpoints:
		for at := range placesOf(o) {
			w.hand[at.addr] = c.name
		}
	}
}

// wentBack takes in that a member's store was restored.
func (w *world) wentBack(c *Cluster) {
	back := lately{at: w.now, since: c.Server.Revision}
	for _, p := range w.pods {
		if p.cluster == c {
			p.dead, p.good, p.lately = true, false, back
		}
	}
	for _, o := range c.All(model.Pods, "") {
		w.observe(c, model.Change{Revision: c.Server.Revision, Before: o, After: o})
	}
	for key := range c.services {
		c.services[key] = &back
	}
}

// reused is what first told a process of a live pod other than that of an endpoint that has its
// address; nil: nothing has.
func (w *world) reused(at place, m *seen, namespace string) (first *telling) {
	if of := w.pods[at.uid]; of == nil || !of.dead || of.cluster.name != m.name {
		return nil
	}
	for uid, p := range w.pods {
		if uid == at.uid || p.dead || p.addr != at.addr {
			continue
		}
		if told := m.stream(member.Pods, namespace).shown(p.last); told != nil && told.at >= p.at && (first == nil || told.at < first.at) { // not of the store before
			first = told
		}
	}
	return first
}

// owner is the member whose an endpoint is, or was; "" is nobody.
func (w *world) owner(at place) string {
	if p := w.pods[at.uid]; p != nil {
		return p.cluster.name
	}
	return w.hand[at.addr]
}

// The grades of an endpoint, the best first; what is unserved is in no class.
const (
	serves = iota
	reserve
	unserved
)

// offer is an endpoint that a member has for a replica by its truth.
type offer struct {
	place
	grade, order int
	// ready is the condition where its class serves; unsure is true where time alone decides soon
	// whether it serves. inEndpoints: they have it, too.
	ready, unsure, inEndpoints bool
	ports                      string
}

// class orders what serves; the best is the lowest.
func (e *offer) class() int { return e.grade*100 + e.order }

func keyOf(o model.Object) syncer.Key {
	return syncer.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// serviceOf is the Service that counts for a replica; nil: none does.
func (w *world) serviceOf(c *Cluster, key syncer.Key) *corev1.Service {
	mc := w.config.member(c.name)
	svc := model.Of[*corev1.Service](c.Server, model.Services.ID(key.Namespace, key.Name))
	if svc == nil || mc == nil || !mc.Covers(key.Namespace) || svc.Annotations[syncer.AnnotationReplicate] == "false" {
		return nil
	}
	return svc
}

// offersOf are the endpoints that a member has for a replica; nil where it has no such Service.
func (w *world) offersOf(c *Cluster, key syncer.Key) []offer {
	svc, mc := w.serviceOf(c, key), w.config.member(c.name)
	if svc == nil {
		return nil
	}
	out := []offer{}
	if svc.Spec.Selector == nil { // written by hand
		stands := placesOf(c.Find(model.Endpoints.ID(key.Namespace, key.Name)))
		for _, at := range sorted(stands) {
			e := offer{place: at, ports: stands[at].ports, inEndpoints: true, ready: stands[at].ready}
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

// offers are those of all members.
func (w *world) offers(key syncer.Key) (out []offer) {
	for _, c := range w.members {
		out = append(out, w.offersOf(c, key)...)
	}
	return out
}

// of makes it what a pod is for a Service, and reports whether it is one of its endpoints.
func (e *offer) of(svc *corev1.Service, p *corev1.Pod, mc *MemberConfig, now time.Time) bool {
	if svc.Spec.Selector == nil || finished(p) || p.Status.PodIP == "" || !labels.ValidatedSetSelector(svc.Spec.Selector).Matches(labels.Set(p.Labels)) {
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
		to := svc.Spec.Ports[i].TargetPort
		if to.Type == intstr.Int {
			ports = append(ports, to.String())
			continue
		}
		for _, port := range p.Spec.Containers[0].Ports {
			if port.Name == to.StrVal {
				ports = append(ports, fmt.Sprint(port.ContainerPort))
			}
		}
	}
	e.ports = united(ports)
	return e.ports != ""
}

// united are ports as text.
func united(ports []string) string {
	slices.Sort(ports)
	return strings.Join(slices.Compact(ports), " ")
}

// place is an endpoint: no two members have the same addresses, or UIDs.
type place struct{ addr, uid string }

// String names it for people.
func (p place) String() string { return fmt.Sprintf("%s (%s)", p.addr, p.uid[min(24, len(p.uid)):]) }

// view is what stands of a replica in one kind of object, and how.
type view map[place]entry

type entry struct {
	ready         bool
	ports, member string // as a slice says
}

// add adds an endpoint, which may stand in two objects.
func (v view) add(at place, e entry) {
	was := v[at]
	v[at] = entry{was.ready || e.ready, united(strings.Fields(was.ports + " " + e.ports)), e.member}
}

// placesOf reads what stands in one object.
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

// some reports whether an endpoint of some kind stands.
func (v view) some(is func(at place, e entry) bool) bool {
	for at, e := range v {
		if is(at, e) {
			return true
		}
	}
	return false
}

// serve reports whether anything stands ready, has whether an endpoint stands, and anywhere whether
// an address does.
func (v view) serve() bool { return v.some(func(_ place, e entry) bool { return e.ready }) }
func (v view) has(it place) bool {
	_, there := v[it]
	return there
}
func (v view) anywhere(addr string) bool {
	return v.some(func(at place, _ entry) bool { return at.addr == addr })
}

// sorted are the keys of a map in an order that follows from nothing else.
func sorted[K comparable, V any](of map[K]V) []K {
	return slices.SortedFunc(maps.Keys(of), func(a, b K) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// stands is what stands of a replica in objects of a kind.
func (w *world) stands(kind model.Kind, key syncer.Key) view {
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

// ours reports whether an object is the installation's.
func ours(o model.Object) bool {
	l := o.GetLabels()
	namespace, name, _ := strings.Cut(o.GetAnnotations()[syncer.AnnotationReplica], "/")
	return l[syncer.LabelManagedBy] == syncer.ManagedBy && l[syncer.LabelInstance] == instance && namespace == o.GetNamespace() &&
		(name == o.GetName() || model.KindOf(o) == model.EndpointSlices)
}
