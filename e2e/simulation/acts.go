// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// act is one kind of event that a script can contain.
type act struct {
	name string
	// rate is its weight when acts are drawn. fault distinguishes faults from normal operation.
	rate  int
	fault bool
	do    doing
}

// doing performs an act, and reports whether anything happened.
type doing func(w *world, s Step) bool

func actOf(name string) *act { return first(acts, func(a *act) bool { return a.name == name }) }

// span is the duration of an act that ends.
func span(n int) time.Duration {
	return [...]time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 6 * time.Second, 12 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second}[n%8]
}

var (
	namespaces = []string{"shop", "pay"}
	names      = []string{"web", "api", "db"}
	colors     = []string{"blue", "green"}
	latencies  = []time.Duration{20 * time.Microsecond, 60 * time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 9 * time.Second, 40 * time.Second}
)

var acts = []*act{
	{"wait", 0, false, func(*world, Step) bool { return true }},

	// What happens in members.
	{"deployment", 0, false, deploy(false)},
	{"set", 0, false, deploy(true)},
	{"across", 0, false, in((*world).pick, func(c *Cluster, s Step) { // a Service that selects pods of several workloads
		c.service(namespaces[s.B%2], "all", map[string]string{"tier": "all"})
	})},
	{"by-hand", 0, false, in((*world).pick, func(c *Cluster, s Step) {
		c.service(namespaces[s.B%2], "ext", nil)
		c.writeByHand(s)
	})},
	{"write-by-hand", 1, false, in((*world).pick, (*Cluster).writeByHand)},
	{"many", 0, false, in((*world).pick, func(c *Cluster, s Step) { // a member of some size
		for i := range 100 {
			c.service(namespaces[s.B%2], fmt.Sprintf("s%d", i), map[string]string{"app": "s"})
		}
	})},
	{"relabel-many", 1, false, in((*world).pick, func(c *Cluster, s Step) { // bulk work
		for _, o := range c.All(model.Services, "") {
			model.Edit(c.Server, model.IDOf(o), func(o model.Object) { o.SetLabels(map[string]string{"team": strconv.Itoa(s.C)}) })
		}
	})},
	{"scale", 3, false, onWorkload(func(_ *Cluster, l *workload, n int) { l.replicas = n % 6 })},
	{"roll-out", 3, false, onWorkload(func(_ *Cluster, l *workload, _ int) { l.version++ })},
	{"break", 1, false, onWorkload(func(_ *Cluster, l *workload, _ int) { l.broken = !l.broken })},
	{"release", 3, false, onWorkload(func(c *Cluster, l *workload, n int) { c.release(l, span(n%4)) })}, // blue and green
	{"delete-all", 1, false, onWorkload(func(c *Cluster, l *workload, n int) {
		for _, pod := range c.pods(l) {
			c.stopPod(pod, n%2 == 0)
		}
	})},
	{"in-place", 2, false, onWorkload(func(c *Cluster, l *workload, n int) { // every pod becomes not ready and ready again, one after the other
		for i, pod := range c.pods(l) {
			at := time.Duration(i) * span(n%4)
			c.later(pod, at, func() { c.report(pod, false) })
			c.later(pod, at+span(n%4), func() { c.report(pod, true) })
		}
	})},
	{"flap", 3, false, onPod(func(w *world, c *Cluster, pod *corev1.Pod, n int) {
		c.report(pod, false)
		w.until(span(n), func() { c.report(pod, true) })
	})},
	{"finish", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) { // an eviction, or a completed job
		model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) {
			pod.Status.Phase = [...]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded}[n%2]
			c.ready(pod, false)
		})
		c.soon(c.workloadOf(pod))
	})},
	{"delete", 3, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) { c.stopPod(pod, n%3 == 0) })},
	{"new-address", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, _ int) { c.move(pod) })}, // a new sandbox
	{"relabel", 1, false, onPod(func(_ *world, c *Cluster, pod *corev1.Pod, n int) {
		model.Edit(c.Server, model.IDOf(pod), func(pod *corev1.Pod) { pod.Labels["tier"] = [...]string{"all", "none"}[n%2] })
	})},
	{"silence", 2, true, spell(func(w *world, s Step) (end func()) {
		c, node := w.pick(s), "node-"+strconv.Itoa(s.B%nodes)
		if c.silentNode[node] {
			return nil
		}
		c.hear(node, false)
		return func() { c.hear(node, true) }
	})},
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
	{"drop-service", 2, false, spell(func(w *world, s Step) (end func()) {
		c := w.pick(s)
		svc, ok := pickFrom(c.All(model.Services, ""), s.B).(*corev1.Service)
		if !ok {
			return nil
		}
		former := svc.DeepCopy()
		c.Remove(svc)
		return func() {
			former.ResourceVersion, former.UID, former.Spec.ClusterIP, former.Spec.ClusterIPs = "", "", "", nil
			_, _ = c.Create(former)
		}
	})},

	// What happens to links, and to clusters as a whole.
	onLink(cut), onLink(silent), onLink(lossy), onLink(busy), onLink(broken), onLink(refused), onLink(jumbled),
	{"latency", 2, true, spell(func(w *world, s Step) (end func()) {
		l, d := w.pickLink(s), pickFrom(latencies, s.B)
		l.change(func(l *link) { l.latency = d })
		w.note("%s takes %s a message for %s", l.name, d, span(s.C))
		return func() { l.change(func(l *link) { l.latency = time.Millisecond }) }
	})},
	{"withdraw", 2, true, func(w *world, s Step) bool { // the rights to a kind, or to a namespace
		kinds := [][]model.Kind{{model.Pods}, {model.Services}, {model.Pods, model.Services}}[s.B%3]
		where := [][]string{append(namespaces, ""), namespaces[:1], namespaces[1:]}[s.B/3%3]
		refuses := func(id model.ID) bool { return slices.Contains(kinds, id.Kind) && slices.Contains(where, id.Namespace) }
		for _, p := range w.processes {
			l := w.link(p.name, w.pick(s))
			l.change(func(l *link) { l.refuses = refuses })
			w.until(span(s.C), func() { l.change(func(l *link) { l.refuses = nil }) })
		}
		return true
	}},
	{"end-watches", 2, true, in((*world).pickCluster, func(c *Cluster, s Step) { c.EndWatches([...]error{nil, model.ErrBroken}[s.B%2]) })},
	{"compact", 2, true, in((*world).pickCluster, func(c *Cluster, s Step) {
		c.Compact()
		if c.Server.Revision++; s.B%2 == 0 {
			c.EndWatches(model.ErrBroken)
		}
	})},
	{"pages", 1, false, in((*world).pickCluster, func(c *Cluster, s Step) { c.PageSize = 1 + s.B%5 })},
	{"lie", 2, true, func(w *world, s Step) bool { // lists lack objects that exist
		c := w.pick(s)
		lie := func(percent int) {
			c.lies, w.at[lied+c.name] = percent, w.now
			w.onSeen(c, (*seen).anew)
		}
		lie(20 + s.B%80)
		w.until(span(s.C%5), func() { lie(0) }) // objects that were dropped without a question are in the next list
		return true
	}},
	{"save", 0, false, func(w *world, s Step) bool {
		for _, c := range w.clusters {
			c.backup, c.saved = c.Save(), nil
			for _, l := range c.workloads {
				c.saved = append(c.saved, *l)
			}
			c.Revision += 500 // changes of kinds that nobody here follows
			w.at[saved] = w.now
		}
		return true
	}},
	{"restore", 1, true, func(w *world, s Step) bool {
		c := w.pickCluster(s)
		if c.backup == nil || w.at[restored+c.name] != 0 || w.now-w.at[saved] < 25*time.Second {
			return false // nobody can detect a restore of so recent a backup
		}
		w.note("%s is restored to revision %d", c.name, c.backup.Revision)
		c.Restore(c.backup, s.B%3 == 0 && c != w.ingress)
		c.store++
		c.workloads = c.workloads[:len(c.saved)]
		for i, l := range c.saved {
			*c.workloads[i] = l
		}
		if w.at[restored+c.name] = w.now; c != w.ingress {
			w.wentBack(c)
			w.lived = w.now + lively // kubelets and controllers bring back what lives
			c.revive()
		}
		return true
	}},
	{"stranger", 1, true, spell(func(w *world, s Step) (end func()) { // another cluster answers at the address
		c := w.pick(s)
		if w.record[c.name] == "" {
			return nil // the first cluster found there is trusted
		}
		other := newCluster(w, 100+w.steps%1000, c.name+"'s stranger", 0)
		other.service(namespaces[s.B%2], names[s.B/2%3], map[string]string{"app": "stranger"})
		w.swap(c, other)
		return func() { w.swap(other, c) }
	})},

	// What happens to the ingress cluster.
	{"refuse-address", 1, true, onPod(func(w *world, _ *Cluster, pod *corev1.Pod, n int) {
		w.obstruct(obstacle{address: pod.Status.PodIP, hangs: n%3 == 0}, n)
	})},
	{"refuse-additions", 2, true, func(w *world, s Step) bool { return w.obstruct(obstacle{additions: true, hangs: s.B%3 == 0}, s.C) }},
	{"refuse-namespace", 1, true, func(w *world, s Step) bool {
		return w.obstruct(obstacle{namespace: namespaces[s.B%2], removals: true, hangs: s.C%3 == 0}, s.C)
	}},
	{"quota", 1, true, func(w *world, s Step) bool {
		kind, namespace := [...]model.Kind{model.Services, model.EndpointSlices}[s.A%2], namespaces[s.B%2]
		return w.obstruct(obstacle{namespace: namespace, limited: kind, most: len(w.ingress.All(kind, namespace))}, s.C)
	}},
	{"webhook", 1, false, func(w *world, s Step) bool {
		w.edits = !w.edits
		return true
	}},
	{"edit-replica", 2, true, onReplica(func(w *world, o model.Object, n int) bool { return w.meddle(o, pickFrom(edits[model.KindOf(o)], n)) })},
	{"disown", 1, true, onReplica(func(w *world, o model.Object, _ int) bool {
		unread := func(p *Process) bool { return !p.AllListed() }
		share := model.KindOf(o) == model.EndpointSlices && slices.ContainsFunc(w.processes, unread) // its published endpoints are a share
		return !share && w.meddle(o, func(o model.Object) { delete(o.GetLabels(), syncer.LabelManagedBy) })
	})},
	{"delete-replica", 2, true, onReplica(func(w *world, o model.Object, _ int) bool {
		w.at[meddled] = w.now
		return w.ingress.Remove(o) != nil
	})},
	{"foreign", 1, true, func(w *world, s Step) bool { // an object that somebody else owns is in the way
		meta := metav1.ObjectMeta{Namespace: namespaces[s.B%2], Name: names[s.A%3], Labels: map[string]string{"of": "others", syncer.LabelServiceName: names[s.A%3]}}
		o := []model.Object{
			&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.Endpoints{ObjectMeta: meta},
			&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4},
		}[s.C%3]
		w.ingress.ensureNamespace(meta.Namespace)
		made, err := w.ingress.Create(o)
		if err == nil {
			w.ever[keyOf(made)] = true
			w.until(span(s.C/3), func() { w.ingress.later(made, 0, func() { w.ingress.Remove(made) }) })
		}
		return err == nil
	}},
	{"drop-namespace", 1, true, func(w *world, s Step) bool {
		ns := w.ingress.Find(model.Namespaces.ID("", namespaces[s.B%2]))
		if ns == nil {
			return false
		}
		w.ingress.End(ns)
		w.until(span(s.C%5), func() { // the namespace controller
			for _, kind := range []model.Kind{model.EndpointSlices, model.Endpoints, model.Services} {
				for _, o := range w.ingress.All(kind, ns.GetName()) {
					w.ingress.Remove(o)
				}
			}
			w.ingress.Remove(ns)
			w.at[obstructed] = w.now
		})
		return true
	}},

	// What happens to Tributary.
	{"restart", 3, true, func(w *world, s Step) bool {
		if w.lately(unleased) {
			return false // without a Lease the new process would lead beside the other
		}
		inOrder, at := s.B%2 == 0, s.A%len(w.processes)
		former := w.processes[at]
		w.note("%s is restarted, in order %t", former.name, inOrder)
		if former.dead = true; inOrder {
			former.release()
		}
		w.processes[at] = newProcess(w, former.name, former.skew)
		return true
	}},
	{"freeze", 2, true, func(w *world, s Step) bool {
		p := w.processes[s.A%len(w.processes)]
		if w.now < p.frozen {
			return false
		}
		p.frozen = w.now + span(s.C)
		w.at[thawed+p.name] = p.frozen
		w.note("%s is frozen for %s", p.name, span(s.C))
		return true
	}},
	{"second", 1, false, func(w *world, s Step) bool {
		if len(w.processes) > 1 {
			w.processes[1].dead = true
			w.processes = w.processes[:1]
		} else if !w.lately(unleased) {
			w.processes = append(w.processes, newProcess(w, "p1", time.Second))
		}
		return true
	}},
	{"drop-lease", 1, true, func(w *world, s Step) bool {
		o := w.ingress.Find(leaseID)
		if o != nil {
			w.ingress.Remove(o)
			w.at[unleased] = w.now
		}
		return o != nil
	}},
	{"rotate", 1, false, func(w *world, s Step) bool { return w.onSeen(w.pick(s), func(m *seen) { m.way.proven = nil }) }},
	{"relist", 2, false, func(w *world, s Step) bool { return w.onSeen(w.pick(s), (*seen).anew) }},
	{"drain", 2, false, onMember(func(m *member.Config, s Step) { m.Drain = !m.Drain })},
	{"hold", 1, false, onMember(func(m *member.Config, s Step) { m.Options.HoldSilentNodes = span(s.C%6) * time.Duration(s.B%2) })},
	{"stable-for", 1, false, onMember(func(m *member.Config, s Step) { m.Options.StableFor = span(s.C%6) * time.Duration(s.B%2) })},
	{"stale-after", 1, false, onMember(func(m *member.Config, s Step) { m.StaleAfter = span(5+s.C%3) * time.Duration(s.B%2) })},
	{"namespaces", 1, false, onMember(func(m *member.Config, s Step) { only(m, [][]string{nil, {"pay", "shop"}, {"shop"}}[s.C%3]) })},
	{"leave", 1, false, spell(func(w *world, s Step) (end func()) {
		name := pickFrom(sorted(w.config.Members), s.A)
		left := w.config.Members[name]
		if len(w.config.Members) == 1 {
			return nil
		}
		w.reconfigure(func(c *Config) { delete(c.Members, name) })
		return func() { w.reconfigure(func(c *Config) { c.Members[name] = left }) }
	})},
	{"failover", 1, false, onConfig(func(c *Config, _ Step) { c.Failover = !c.Failover })},
	{"orphans", 1, false, onConfig(func(c *Config, _ Step) { c.DropOrphans = !c.DropOrphans })},
	{"only-slices", 1, false, onConfig(func(c *Config, _ Step) { c.WriteEndpoints = !c.WriteEndpoints })},
	{"exclude", 1, false, onConfig(func(c *Config, s Step) { c.Excluded = []string{"", "", "shop", "pay"}[s.C%4] })},
}

// edits are changes that others make to our objects.
var edits = map[model.Kind][]func(model.Object){
	model.Services: {
		func(o model.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "theirs"} },
		func(o model.Object) { o.GetLabels()["team"] = "theirs" },
		func(o model.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 4711 },
	},
	model.Endpoints: {func(o model.Object) { o.(*corev1.Endpoints).Subsets = nil }},
	model.EndpointSlices: {
		func(o model.Object) { o.(*discoveryv1.EndpointSlice).Endpoints = nil },
		func(o model.Object) { o.SetOwnerReferences(nil) },
		func(o model.Object) {
			for i := range o.(*discoveryv1.EndpointSlice).Endpoints {
				o.(*discoveryv1.EndpointSlice).Endpoints[i].Conditions.Ready = new(false)
			}
		},
	},
}
