// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
)

// spell is an act that ends after a while. begin returns nil if nothing has begun.
func spell(begin func(w *world, s Step) (end func())) doing {
	return func(w *world, s Step) bool {
		end := begin(w, s)
		if end != nil {
			w.until(span(s.C), end)
		}
		return end != nil
	}
}

// pick chooses a member, pickCluster any cluster, pickLink the link of a process to a cluster.
func (w *world) pick(s Step) *Cluster        { return w.members[s.A%len(w.members)] }
func (w *world) pickCluster(s Step) *Cluster { return w.clusters[s.A%len(w.clusters)] }
func (w *world) pickLink(s Step) *link {
	return w.link(w.processes[s.A/7%len(w.processes)].name, w.pickCluster(s))
}

// first returns the first element that matches, pickFrom any one; otherwise the zero value.
func first[T any](of []T, is func(T) bool) (none T) {
	if at := slices.IndexFunc(of, is); at >= 0 {
		return of[at]
	}
	return none
}

func pickFrom[T any](of []T, n int) (none T) {
	if len(of) == 0 {
		return none
	}
	return of[n%len(of)]
}

func in(pick func(*world, Step) *Cluster, do func(*Cluster, Step)) doing {
	return func(w *world, s Step) bool {
		do(pick(w, s), s)
		return true
	}
}

func onWorkload(do func(c *Cluster, l *workload, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		l := pickFrom(c.workloads, s.B)
		if l != nil {
			do(c, l, s.C)
			c.soon(l)
		}
		return l != nil
	}
}

func onPod(do func(w *world, c *Cluster, pod *corev1.Pod, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		pod := pickFrom(slices.DeleteFunc(c.live(""), func(pod *corev1.Pod) bool { return pod.Status.PodIP == "" }), s.B)
		if pod != nil {
			do(w, c, pod, s.C)
		}
		return pod != nil
	}
}

func onService(edit func(svc *corev1.Service, n int)) doing {
	return func(w *world, s Step) bool {
		c := w.pick(s)
		svc := pickFrom(c.All(model.Services, ""), s.B)
		return svc != nil && model.Edit(c.Server, model.IDOf(svc), func(svc *corev1.Service) { edit(svc, s.C) }) != nil
	}
}

// onReplica is an act of others on an object of ours, and meddle a change to one.
func onReplica(do func(w *world, o model.Object, n int) bool) doing {
	return func(w *world, s Step) bool {
		all := slices.Concat(w.ingress.All(model.Services, ""), w.ingress.All(model.Endpoints, ""), w.ingress.All(model.EndpointSlices, ""))
		o := pickFrom(slices.DeleteFunc(all, func(o model.Object) bool { return !ours(o) }), s.B)
		return o != nil && do(w, o, s.C)
	}
}

func (w *world) meddle(o model.Object, change func(model.Object)) bool {
	w.at[obstructed], w.at[meddled] = w.now, w.now
	return model.Edit(w.ingress.Server, model.IDOf(o), change) != nil
}

// onLink is the act by which a link has a fault for a while.
func onLink(is *fault) *act {
	return &act{is.name, 1, true, spell(func(w *world, s Step) (end func()) {
		l := w.pickLink(s)
		if l.fault != sound {
			return nil
		}
		l.change(func(l *link) { l.fault = is })
		w.note("%s is %s for %s", l.name, is.name, span(s.C))
		return func() { l.change(func(l *link) { l.fault = sound }) }
	})}
}

func onConfig(change func(*Config, Step)) doing {
	return func(w *world, s Step) bool { return w.reconfigure(func(c *Config) { change(c, s) }) }
}

func onMember(change func(*member.Config, Step)) doing {
	return func(w *world, s Step) bool {
		name := w.pick(s).name
		former := w.config.Members[name]
		return former != nil && w.reconfigure(func(c *Config) {
			m := *former
			change(&m, s)
			c.Members[name] = &m
		})
	}
}

// onSeen calls do for a member as each process sees it.
func (w *world) onSeen(c *Cluster, do func(*seen)) bool {
	for _, p := range w.processes {
		if m := p.members[c.name]; m != nil {
			do(m)
		}
	}
	return true
}

// deploy creates a workload with its Service.
func deploy(stateful bool) doing {
	return func(w *world, s Step) bool {
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
}

// writeByHand writes Endpoints as people do, if there is a Service for them.
func (c *Cluster) writeByHand(s Step) {
	id := model.Endpoints.ID(namespaces[s.B%2], "ext")
	if c.Find(model.Services.ID(id.Namespace, id.Name)) == nil {
		return
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
	model.Edit(c.Server, id, func(o *corev1.Endpoints) { o.Subsets = []corev1.EndpointSubset{subset}[:min(1, s.C%4)] }) // none without an address
}

// obstruct adds an obstacle to the ingress cluster's admission for a while.
func (w *world) obstruct(o obstacle, n int) bool {
	w.note("the ingress cluster refuses %+v for %s", o, span(n))
	w.obstacles = append(w.obstacles, o)
	w.until(span(n), func() {
		w.obstacles = slices.DeleteFunc(w.obstacles, func(other obstacle) bool { return other == o })
		if w.at[obstructed] = w.now; o.hangs {
			w.at[hung] = w.now
		}
	})
	return true
}

// swap has another cluster answer at a member's address.
func (w *world) swap(from, to *Cluster) {
	w.note("at the address of %s is %s", from.name, to.name)
	for _, name := range sorted(w.links) {
		if l := w.links[name]; l.cluster == from {
			l.change(func(l *link) { l.cluster = to })
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.note("all faults end")
	w.lived = max(w.lived, w.now) // members may become readable only now
	for _, end := range w.pending {
		end()
	}
	for _, c := range w.members {
		for _, l := range c.workloads {
			l.broken = false
			for _, pod := range c.pods(l) {
				c.report(pod, true)
			}
		}
	}
}
