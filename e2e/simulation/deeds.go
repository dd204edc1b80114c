// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"tributary.dev/tributary/internal/apitest/model"
)

// deploy makes a workload with its Service.
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
	c.Edit(id, func(o model.Object) {
		if o.(*corev1.Endpoints).Subsets = nil; s.C%4 > 0 {
			o.(*corev1.Endpoints).Subsets = []corev1.EndpointSubset{subset}
		}
	})
}

// obstruct puts an obstacle before the ingress cluster's store for a while.
func obstruct(by func(w *world, s Step) obstacle) doing {
	return func(w *world, s Step) bool { return w.obstruct(by(w, s), s.C) }
}

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

// restart ends a process and begins another in its place.
func (w *world) restart(i int, inOrder bool) {
	former := w.processes[i]
	w.note("%s is restarted, in order %t", former.name, inOrder)
	if former.dead = true; inOrder {
		former.release()
	}
	w.processes[i] = newProcess(w, former.name, former.skew)
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

// heal ends all that is wrong.
func (w *world) heal() {
	w.note("all faults end")
	w.lived = max(w.lived, w.now) // what members have may only now be read
	for n := 0; n < len(w.pending); n++ {
		w.end(n)
	}
	for _, c := range w.members {
		for _, l := range c.workloads {
			l.broken = false
			for _, pod := range c.pods(l) {
				c.turn(pod, true)
			}
		}
	}
}
