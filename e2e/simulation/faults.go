// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

var faults = []act{
	// Between processes and clusters.
	{name: "latency", rate: 2, fault: true, do: func(w *world, s Step) bool {
		l := w.pickLink(s)
		l.change(func(l *link) { l.latency = pickFrom(latencies, s.B) })
		w.note("%s takes %s a message for %s", l.name, l.latency, span(s.C))
		w.until(span(s.C), func() { l.change(func(l *link) { l.latency = time.Millisecond }) })
		return true
	}},
	{name: "withdraw", rate: 2, fault: true, do: func(w *world, s Step) bool { // rights to a kind, or to a namespace
		for _, p := range w.processes {
			l := w.link(p.name, w.pick(s))
			refusing := map[ID]bool{}
			for _, kind := range [][]Kind{{Pods}, {Services}, {Pods, Services}}[s.B%3] {
				for _, namespace := range [][]string{append(namespaces, ""), namespaces[:1], namespaces[1:]}[s.B/3%3] {
					refusing[ID{Kind: kind, Namespace: namespace}] = true
				}
			}
			l.change(func(l *link) { l.refusing = refusing })
			w.until(span(s.C), func() { l.change(func(l *link) { l.refusing = nil }) })
		}
		return true
	}},
	{name: "end-watches", rate: 2, fault: true, do: func(w *world, s Step) bool {
		c := w.pickCluster(s)
		c.endWatches([...]error{nil, errBroken}[s.B%2])
		return true
	}},
	{name: "compact", rate: 2, fault: true, do: func(w *world, s Step) bool {
		c := w.pickCluster(s)
		c.Compact()
		return c.edit(ID{Kind: Namespaces, Name: metav1.NamespaceSystem}, func(o Object) { o.SetLabels(map[string]string{"n": fmt.Sprint(c.Server.revision)}) }) != nil
	}},
	{name: "pages", rate: 1, do: func(w *world, s Step) bool {
		w.pickCluster(s).pageSize = 1 + s.B%5
		return true
	}},
	{name: "lie", rate: 2, fault: true, do: func(w *world, s Step) bool { // lists lack what is there
		c := w.pick(s)
		c.lies, c.lied = 20+s.B%80, w.now
		for _, p := range w.processes {
			p.anew(c.name)
		}
		w.until(span(s.C%5), func() { // what was wanted by nobody, and went, is in the next list
			c.lies, c.lied = 0, w.now
			for _, p := range w.processes {
				p.anew(c.name)
			}
		})
		return true
	}},
	{name: "save", do: func(w *world, s Step) bool {
		for _, c := range w.clusters {
			c.save()
			c.saved = w.now
		}
		return true
	}},
	{name: "restore", rate: 1, fault: true, do: func(w *world, s Step) bool {
		c := w.pickCluster(s)
		if c.backup == nil || c.restored != 0 || w.now-c.saved < 25*time.Second {
			return false // of a backup that is no older nobody can tell
		}
		w.note("%s is restored to revision %d", c.name, c.backedUp)
		c.restore(s.B%3 == 0 && c != w.ingress)
		c.restored = w.now
		if t := w.truths[c.name]; t != nil {
			t.wentBack(c)
			w.lived = w.now + lively // kubelets and controllers bring back what lives
			for _, p := range w.processes {
				p.forget(c.name)
			}
			c.revive()
		}
		w.laws.allDirty()
		return true
	}},
	{name: "stranger", rate: 1, fault: true, do: func(w *world, s Step) bool { // another cluster at the address
		c := w.pick(s)
		if w.record[c.name] == "" {
			return false // whoever is found first is believed
		}
		other := newCluster(&w.schedule, w.seed, 100+int(w.serial%1000), c.name+"'s stranger", 0)
		other.service(namespaces[s.B%2], names[s.B/2%3], map[string]string{"app": "stranger"})
		w.swap(c, other)
		w.until(span(s.C), func() { w.swap(other, c) })
		return true
	}},
	// In the ingress cluster.
	{name: "refuse-address", rate: 1, fault: true, do: func(w *world, s Step) bool {
		return w.onPod(s, func(c *Cluster, pod *corev1.Pod) {
			w.obstruct(obstacle{address: pod.Status.PodIP, hangs: s.B%3 == 0}, span(s.C))
		})
	}},
	{name: "refuse-additions", rate: 2, fault: true, do: func(w *world, s Step) bool { // of whatever address
		w.obstruct(obstacle{additions: true, hangs: s.B%3 == 0}, span(s.C))
		return true
	}},
	{name: "refuse-namespace", rate: 1, fault: true, do: func(w *world, s Step) bool {
		w.obstruct(obstacle{namespace: namespaces[s.B%2], removals: true, hangs: s.C%3 == 0}, span(s.C))
		return true
	}},
	{name: "quota", rate: 1, fault: true, do: func(w *world, s Step) bool {
		id := ID{Kind: [...]Kind{Services, EndpointSlices}[s.A%2], Namespace: namespaces[s.B%2]}
		w.ingress.quota[id] = len(w.ingress.all(id.Kind, id.Namespace))
		w.obstruct(obstacle{namespace: id.Namespace}, span(s.C))
		w.until(span(s.C), func() { delete(w.ingress.quota, id) })
		return true
	}},
	{name: "webhook", rate: 1, do: func(w *world, s Step) bool {
		w.edits = !w.edits
		return true
	}},
	{name: "edit-replica", rate: 2, fault: true, do: func(w *world, s Step) bool {
		return w.meddle(s, func(o Object) {
			switch o := o.(type) {
			case *corev1.Service:
				switch s.C % 3 {
				case 0:
					o.Spec.Selector = map[string]string{"app": "theirs"}
				case 1:
					o.Labels["team"] = "theirs"
				default:
					o.Spec.Ports[0].Port = 4711
				}
			case *corev1.Endpoints:
				o.Subsets = nil
			case *discoveryv1.EndpointSlice:
				switch s.C % 3 {
				case 0:
					o.Endpoints = nil
				case 1:
					o.OwnerReferences = nil
				default:
					for i := range o.Endpoints {
						o.Endpoints[i].Conditions.Ready = new(false)
					}
				}
			}
		})
	}},
	{name: "disown", rate: 1, fault: true, do: func(w *world, s Step) bool {
		if o := w.pickReplica(s); o != nil && kindOf(o) == EndpointSlices && slices.ContainsFunc(w.processes, func(p *Process) bool { return !p.AllListed() }) {
			return false // what stands of a member is its share until it is listed
		}
		return w.meddle(s, func(o Object) { delete(o.GetLabels(), syncer.LabelManagedBy) })
	}},
	{name: "delete-replica", rate: 2, fault: true, do: func(w *world, s Step) bool {
		o := w.pickReplica(s)
		if o != nil {
			w.ingress.remove(o)
			w.meddled = w.now
		}
		return o != nil
	}},
	{name: "foreign", rate: 1, fault: true, do: func(w *world, s Step) bool { // an object of somebody else's in the way
		c, namespace, name := w.ingress, namespaces[s.B%2], names[s.A%3]
		c.ensureNamespace(namespace)
		meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"of": "others"}}
		o := []Object{&corev1.Service{ObjectMeta: meta}, &corev1.Endpoints{ObjectMeta: meta},
			&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-a-1", Labels: map[string]string{syncer.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4}}[s.C%3]
		if c.get(idOf(o)) != nil {
			return false
		}
		made, err := c.Create(o)
		if err == nil {
			w.until(span(s.C/3), func() {
				if now := c.get(idOf(made)); now != nil && now.GetUID() == made.GetUID() {
					c.remove(now)
				}
			})
		}
		return err == nil
	}},
	{name: "drop-namespace", rate: 1, fault: true, do: func(w *world, s Step) bool {
		id := ID{Kind: Namespaces, Name: namespaces[s.B%2]}
		if w.ingress.get(id) == nil {
			return false
		}
		w.ingress.edit(id, func(o Object) { o.SetDeletionTimestamp(new(metav1.NewTime(w.time()))) })
		w.until(span(s.C%5), func() { w.terminate(id) })
		return true
	}},
	// To Tributary.
	{name: "restart", rate: 3, fault: true, do: func(w *world, s Step) bool {
		if w.unleased != 0 && w.now-w.unleased < leaseTime {
			return false // who begins without a Lease would lead beside the other
		}
		w.restart(s.A%len(w.processes), s.B%2 == 0)
		return true
	}},
	{name: "freeze", rate: 2, fault: true, do: func(w *world, s Step) bool {
		p := w.processes[s.A%len(w.processes)]
		p.frozen = max(p.frozen, w.now+span(s.C))
		p.thawed = p.frozen
		w.note("%s stands still for %s", p.name, span(s.C))
		return true
	}},
	{name: "second", rate: 1, do: func(w *world, s Step) bool {
		if len(w.processes) > 1 {
			w.processes[1].end()
			w.processes = w.processes[:1]
		} else if w.unleased == 0 || w.now-w.unleased > leaseTime { // it would lead beside the other

			w.processes = append(w.processes, newProcess(w, "p1", time.Second))
		}
		return true
	}},
	{name: "drop-lease", rate: 1, fault: true, do: func(w *world, s Step) bool {
		o := w.ingress.get(leaseID)
		if o != nil {
			w.ingress.remove(o)
			w.unleased = w.now
		}
		return o != nil
	}},
	{name: "rotate", rate: 1, do: func(w *world, s Step) bool {
		for _, p := range w.processes {
			p.rotate(w.pick(s).name)
		}
		return true
	}},
	{name: "relist", rate: 2, do: func(w *world, s Step) bool {
		for _, p := range w.processes {
			p.anew(w.pick(s).name)
		}
		return true
	}},
	// To its configuration.
	{name: "drain", rate: 2, do: onMember(func(m *MemberConfig, s Step) { m.Drain = !m.Drain })},
	{name: "hold", rate: 1, do: onMember(func(m *MemberConfig, s Step) { m.Hold = span(s.C%6) * time.Duration(s.B%2) })},
	{name: "stable-for", rate: 1, do: onMember(func(m *MemberConfig, s Step) { m.StableFor = span(s.C%6) * time.Duration(s.B%2) })},
	{name: "stale-after", rate: 1, do: onMember(func(m *MemberConfig, s Step) { m.Stale = span(5+s.C%3) * time.Duration(s.B%2) })},
	{name: "namespaces", rate: 1, do: onMember(func(m *MemberConfig, s Step) {
		m.Only = [][]string{nil, {"pay", "shop"}, {"shop"}}[s.C%3]
	})},
	{name: "leave", rate: 1, do: func(w *world, s Step) bool {
		name := w.pick(s).name
		former := w.config.member(name)
		if former == nil || len(w.config.Members) == 1 {
			return false
		}
		again := *former
		w.reconfigure(func(c *Config) {
			c.Members = slices.DeleteFunc(c.Members, func(m MemberConfig) bool { return m.Name == name })
		})
		w.until(span(s.C), func() {
			w.reconfigure(func(c *Config) {
				c.Members = append(c.Members, again)
				slices.SortFunc(c.Members, func(a, b MemberConfig) int { return int(a.Name[0]) - int(b.Name[0]) })
			})
		})
		return true
	}},
	{name: "failover", rate: 1, do: func(w *world, s Step) bool { return w.reconfigure(func(c *Config) { c.Failover = !c.Failover }) }},
	{name: "orphans", rate: 1, do: func(w *world, s Step) bool {
		return w.reconfigure(func(c *Config) { c.DropOrphans = !c.DropOrphans })
	}},
	{name: "only-slices", rate: 1, do: func(w *world, s Step) bool {
		return w.reconfigure(func(c *Config) { c.OnlySlices = !c.OnlySlices })
	}},
	{name: "exclude", rate: 1, do: func(w *world, s Step) bool {
		return w.reconfigure(func(c *Config) { c.Excluded = []string{"", "", "shop", "pay"}[s.C%4] })
	}},
}

// linkFaults are acts that make a link be at fault for a while.
func linkFaults() (out []act) {
	for _, f := range []fault{cut, silent, lossy, busy, broken, refused, jumbled} {
		out = append(out, act{name: string(f), rate: 1, fault: true, do: func(w *world, s Step) bool {
			l := w.pickLink(s)
			if l.fault != sound {
				return false
			}
			l.change(func(l *link) { l.fault = f })
			w.note("%s is %s for %s", l.name, string(f), span(s.C))
			w.until(span(s.C), func() { l.change(func(l *link) { l.fault = sound }) })
			return true
		}})
	}
	return out
}
