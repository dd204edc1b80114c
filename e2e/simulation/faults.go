// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/syncer"
)

var faults = []act{
	// Between processes and clusters.
	onLink(string(cut)), onLink(string(silent)), onLink(string(lossy)), onLink(string(busy)), onLink(string(broken)), onLink(string(refused)), onLink(string(jumbled)),
	{"latency", 2, true, func(w *world, s Step) bool {
		l := w.pickLink(s)
		l.change(func(l *link) {
			l.latency = pickFrom([]time.Duration{20 * time.Microsecond, 20 * time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 9 * time.Second, 40 * time.Second}, s.B)
		})
		w.note("%s takes %s a message for %s", l.name, l.latency, span(s.C))
		w.until(span(s.C), func() { l.change(func(l *link) { l.latency = time.Millisecond }) })
		return true
	}},
	{"withdraw", 2, true, func(w *world, s Step) bool { // rights to a kind, or to a namespace
		refusing := map[ID]bool{}
		for _, kind := range [][]Kind{{Pods}, {Services}, {Pods, Services}}[s.B%3] {
			for _, namespace := range [][]string{append(namespaces, ""), namespaces[:1], namespaces[1:]}[s.B/3%3] {
				refusing[ID{Kind: kind, Namespace: namespace}] = true
			}
		}
		for _, p := range w.processes {
			l := w.link(p.name, w.pick(s))
			l.change(func(l *link) { l.refusing = refusing })
			w.until(span(s.C), func() { l.change(func(l *link) { l.refusing = nil }) })
		}
		return true
	}},
	{"end-watches", 2, true, func(w *world, s Step) bool {
		w.pickCluster(s).endWatches([...]error{nil, errBroken}[s.B%2])
		return true
	}},
	{"compact", 2, true, func(w *world, s Step) bool {
		w.pickCluster(s).Compact()
		w.pickCluster(s).Server.revision++
		return true
	}},
	{"pages", 1, false, func(w *world, s Step) bool {
		w.pickCluster(s).pageSize = 1 + s.B%5
		return true
	}},
	{"lie", 2, true, func(w *world, s Step) bool { // lists lack what is there
		c := w.pick(s)
		lie := func(percent int) {
			c.lies, w.at[lied+c.name] = percent, w.now
			w.onSeen(c, (*seen).anew)
		}
		lie(20 + s.B%80)
		w.until(span(s.C%5), func() { lie(0) }) // what was wanted by nobody, and went, is in the next list
		return true
	}},
	{"save", 0, false, func(w *world, s Step) bool {
		for _, c := range w.clusters {
			c.save()
			w.at[saved] = w.now
		}
		return true
	}},
	{"restore", 1, true, func(w *world, s Step) bool {
		c := w.pickCluster(s)
		if c.backup == nil || w.at[restored+c.name] != 0 || w.now-w.at[saved] < 25*time.Second {
			return false // of a backup that is no older nobody can tell
		}
		w.note("%s is restored to revision %d", c.name, c.backedUp)
		c.restore(s.B%3 == 0 && c != w.ingress)
		if w.at[restored+c.name] = w.now; c != w.ingress {
			c.truth.wentBack(c)
			w.lived = w.now + lively // kubelets and controllers bring back what lives
			w.onSeen(c, func(m *seen) {
				for _, f := range m.streams {
					f.told = nil
				}
			})
			c.revive()
		}
		return true
	}},
	{"stranger", 1, true, func(w *world, s Step) bool { // another cluster at the address
		c := w.pick(s)
		if w.record[c.name] == "" {
			return false // whoever is found first is believed
		}
		other := newCluster(w, 100+w.steps%1000, c.name+"'s stranger", 0)
		other.service(namespaces[s.B%2], names[s.B/2%3], map[string]string{"app": "stranger"})
		w.swap(c, other)
		w.until(span(s.C), func() { w.swap(other, c) })
		return true
	}},
	// In the ingress cluster.
	{"refuse-address", 1, true, onPod(func(w *world, _ *Cluster, pod *corev1.Pod, n int) {
		w.obstruct(obstacle{address: pod.Status.PodIP, hangs: n%3 == 0}, span(n))
	})},
	{"refuse-additions", 2, true, func(w *world, s Step) bool { // of whatever address
		return w.obstruct(obstacle{additions: true, hangs: s.B%3 == 0}, span(s.C))
	}},
	{"refuse-namespace", 1, true, func(w *world, s Step) bool {
		return w.obstruct(obstacle{namespace: namespaces[s.B%2], removals: true, hangs: s.C%3 == 0}, span(s.C))
	}},
	{"quota", 1, true, func(w *world, s Step) bool {
		id := ID{Kind: [...]Kind{Services, EndpointSlices}[s.A%2], Namespace: namespaces[s.B%2]}
		w.ingress.quota[id] = len(w.ingress.all(id.Kind, id.Namespace))
		w.until(span(s.C), func() { delete(w.ingress.quota, id) })
		return w.obstruct(obstacle{namespace: id.Namespace}, span(s.C))
	}},
	{"webhook", 1, false, func(w *world, s Step) bool {
		w.edits = !w.edits
		return true
	}},
	{"edit-replica", 2, true, func(w *world, s Step) bool {
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
	{"disown", 1, true, func(w *world, s Step) bool {
		if o := w.pickReplica(s); o != nil && kindOf(o) == EndpointSlices && slices.ContainsFunc(w.processes, func(p *Process) bool { return !p.AllListed() }) {
			return false // what stands of a member is its share until it is listed
		}
		return w.meddle(s, func(o Object) { delete(o.GetLabels(), syncer.LabelManagedBy) })
	}},
	{"delete-replica", 2, true, func(w *world, s Step) bool {
		o := w.pickReplica(s)
		if o != nil {
			w.ingress.remove(o)
			w.at[meddled] = w.now
		}
		return o != nil
	}},
	{"foreign", 1, true, func(w *world, s Step) bool { // an object of somebody else's in the way
		meta := metav1.ObjectMeta{Namespace: namespaces[s.B%2], Name: names[s.A%3], Labels: map[string]string{"of": "others", syncer.LabelServiceName: names[s.A%3]}}
		o := []Object{&corev1.Service{ObjectMeta: meta}, &corev1.Endpoints{ObjectMeta: meta}, &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4}}[s.C%3]
		w.ingress.ensureNamespace(meta.Namespace)
		made, err := w.ingress.Create(o)
		if err == nil {
			w.until(span(s.C/3), func() { w.ingress.later(made, 0, func() { w.ingress.remove(made) }) })
		}
		return err == nil
	}},
	{"drop-namespace", 1, true, func(w *world, s Step) bool {
		ns := w.ingress.get(ID{Kind: Namespaces, Name: namespaces[s.B%2]})
		if ns == nil {
			return false
		}
		w.ingress.end(ns)
		w.until(span(s.C%5), func() { // the namespace controller
			for _, kind := range []Kind{EndpointSlices, Endpoints, Services} {
				for _, o := range w.ingress.all(kind, ns.GetName()) {
					w.ingress.remove(o)
				}
			}
			w.ingress.remove(ns)
			w.at[obstructed] = w.now
		})
		return true
	}},
	// To Tributary.
	{"restart", 3, true, func(w *world, s Step) bool {
		if w.lately(unleased) {
			return false // who begins without a Lease would lead beside the other
		}
		w.restart(s.A%len(w.processes), s.B%2 == 0)
		return true
	}},
	{"freeze", 2, true, func(w *world, s Step) bool {
		p := w.processes[s.A%len(w.processes)]
		p.frozen = max(p.frozen, w.now+span(s.C))
		w.at[thawed+p.name] = p.frozen
		w.note("%s stands still for %s", p.name, span(s.C))
		return true
	}},
	{"second", 1, false, func(w *world, s Step) bool {
		if len(w.processes) > 1 {
			w.processes[1].end()
			w.processes = w.processes[:1]
		} else if !w.lately(unleased) {
			w.processes = append(w.processes, newProcess(w, "p1", time.Second))
		}
		return true
	}},
	{"drop-lease", 1, true, func(w *world, s Step) bool {
		o := w.ingress.get(leaseID)
		if o != nil {
			w.ingress.remove(o)
			w.at[unleased] = w.now
		}
		return o != nil
	}},
	{"rotate", 1, false, func(w *world, s Step) bool { return w.onSeen(w.pick(s), func(m *seen) { m.way.proven = nil }) }},
	{"relist", 2, false, func(w *world, s Step) bool { return w.onSeen(w.pick(s), (*seen).anew) }},
	// To its configuration.
	{"drain", 2, false, onMember(func(m *MemberConfig, s Step) { m.Drain = !m.Drain })},
	{"hold", 1, false, onMember(func(m *MemberConfig, s Step) { m.Options.HoldSilentNodes = span(s.C%6) * time.Duration(s.B%2) })},
	{"stable-for", 1, false, onMember(func(m *MemberConfig, s Step) { m.Options.StableFor = span(s.C%6) * time.Duration(s.B%2) })},
	{"stale-after", 1, false, onMember(func(m *MemberConfig, s Step) { m.StaleAfter = span(5+s.C%3) * time.Duration(s.B%2) })},
	{"namespaces", 1, false, onMember(func(m *MemberConfig, s Step) { m.only([][]string{nil, {"pay", "shop"}, {"shop"}}[s.C%3]) })},
	{"leave", 1, false, func(w *world, s Step) bool {
		name := w.pick(s).name
		m := w.config.member(name)
		if m == nil || len(w.config.Members) == 1 {
			return false
		}
		again := *m
		w.reconfigure(func(c *Config) {
			c.Members = slices.DeleteFunc(c.Members, func(m MemberConfig) bool { return m.Name == name })
		})
		w.until(span(s.C), func() {
			w.reconfigure(func(c *Config) {
				c.Members = append(c.Members, again)
				slices.SortFunc(c.Members, func(a, b MemberConfig) int { return strings.Compare(a.Name, b.Name) })
			})
		})
		return true
	}},
	{"failover", 1, false, onConfig(func(c *Config, _ Step) { c.Failover = !c.Failover })},
	{"orphans", 1, false, onConfig(func(c *Config, _ Step) { c.DropOrphans = !c.DropOrphans })},
	{"only-slices", 1, false, onConfig(func(c *Config, _ Step) { c.WriteEndpoints = !c.WriteEndpoints })},
	{"exclude", 1, false, onConfig(func(c *Config, s Step) { c.Excluded = []string{"", "", "shop", "pay"}[s.C%4] })},
}

// onLink makes a link be at fault for a while.
func onLink(name string) act {
	return act{name, 1, true, func(w *world, s Step) bool {
		l := w.pickLink(s)
		if l.fault != sound {
			return false
		}
		l.change(func(l *link) { l.fault = fault(name) })
		w.note("%s is %s for %s", l.name, name, span(s.C))
		w.until(span(s.C), func() { l.change(func(l *link) { l.fault = sound }) })
		return true
	}}
}

func onConfig(change func(*Config, Step)) func(*world, Step) bool {
	return func(w *world, s Step) bool { return w.reconfigure(func(c *Config) { change(c, s) }) }
}

func onMember(change func(*MemberConfig, Step)) func(*world, Step) bool {
	return func(w *world, s Step) bool {
		name := w.pick(s).name
		return w.config.member(name) != nil && w.reconfigure(func(c *Config) { change(c.member(name), s) })
	}
}

// onSeen does something to a member as each process sees it.
func (w *world) onSeen(c *Cluster, do func(*seen)) bool {
	for _, p := range w.processes {
		if m := memberOf(p.members, c.name); m != nil {
			do(m)
		}
	}
	return true
}

// pickCluster is a member, or the ingress cluster.
func (w *world) pickCluster(s Step) *Cluster { return w.clusters[s.A%len(w.clusters)] }

func (w *world) pickLink(s Step) *link {
	return w.link(w.processes[s.A/7%len(w.processes)].name, w.pickCluster(s))
}

// obstruct puts an obstacle before the ingress cluster's store for a while.
func (w *world) obstruct(o obstacle, d time.Duration) bool {
	w.note("the ingress cluster refuses %+v for %s", o, d)
	w.obstacles = append(w.obstacles, o)
	w.until(d, func() {
		w.obstacles = slices.DeleteFunc(w.obstacles, func(other obstacle) bool { return other == o })
		if w.at[obstructed] = w.now; o.hangs {
			w.at[hung] = w.now
		}
	})
	return true
}

// pickReplica is an object of ours in the ingress cluster.
func (w *world) pickReplica(s Step) Object {
	all := slices.Concat(w.ingress.all(Services, ""), w.ingress.all(Endpoints, ""), w.ingress.all(EndpointSlices, ""))
	return pickFrom(slices.DeleteFunc(all, func(o Object) bool { return !ours(o) }), s.B)
}

// meddle has others change an object of ours.
func (w *world) meddle(s Step, change func(Object)) bool {
	o := w.pickReplica(s)
	if o != nil {
		w.at[obstructed], w.at[meddled] = w.now, w.now
		w.ingress.edit(idOf(o), change)
	}
	return o != nil
}

// restart ends a process and begins another in its place.
func (w *world) restart(i int, inOrder bool) {
	former := w.processes[i]
	w.note("%s is restarted, in order %t", former.name, inOrder)
	if former.end(); inOrder {
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
