// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/syncer"
)

// world is all that there is in one case.
type world struct {
	schedule
	seed      uint64
	ingress   *Cluster
	members   []*Cluster // sorted by name
	clusters  []*Cluster // they and the ingress cluster
	processes []*Process
	links     map[string]*link
	truths    map[string]*truth
	laws      *laws
	// config is what the file says, since configured; record is by which UIDs members are known.
	config     *Config
	configured time.Duration
	record     map[string]string
	// obstacles are what admission refuses, or lets hang; obstructed is when the last
	// one ended, hung when the last one did that hangs.
	obstacles        []obstacle
	obstructed, hung time.Duration
	// meddled is when others last changed what is ours.
	meddled time.Duration
	// unleased is when somebody last deleted the Lease, left when Services of the ingress cluster last
	// went.
	unleased time.Duration
	left     map[ID]time.Duration
	// edits is true while a webhook edits what is written, edited are objects that others did.
	edits  bool
	edited map[ID]bool
	// pending are the ends of what goes on for a while; lived is when a member last changed.
	pending []*ending
	lived   time.Duration
	// notes are what happened, for people; nil: nobody wants to know. met counts what did, see
	// Result.
	notes *strings.Builder
	met   map[string]int
}

// obstacle is what a webhook of the ingress cluster does.
type obstacle struct {
	// namespace restricts it; address refuses only what has it, additions what has an address
	// more than before. removals: it stops those, too.
	namespace string
	address   string
	additions bool
	hangs     bool
	removals  bool
}

func newWorld(seed uint64, members, processes int, notes *strings.Builder) *world {
	w := &world{seed: seed, links: map[string]*link{}, truths: map[string]*truth{}, record: map[string]string{},
		config: &Config{}, edited: map[ID]bool{}, left: map[ID]time.Duration{}, notes: notes, met: map[string]int{}}
	w.laws = newLaws(w)
	w.ingress = newCluster(&w.schedule, seed, 0, "ingress", 0)
	w.ingress.ensureNamespace(leaseID.Namespace)
	w.ingress.changed = func(c change) { w.ingressChanged(c) }
	w.ingress.admission = w.admit
	for i := range members {
		c := newCluster(&w.schedule, seed, i+1, string(rune('a'+i)), time.Duration(i)*3*time.Second)
		w.members = append(w.members, c)
		w.truths[c.name] = newTruth()
		c.changed = func(ch change) { w.memberChanged(c, ch) }
		w.config.Members = append(w.config.Members, MemberConfig{Name: c.name})
	}
	w.clusters = append(slices.Clone(w.members), w.ingress)
	for i := range processes {
		w.processes = append(w.processes, newProcess(w, fmt.Sprintf("p%d", i), time.Duration(i)*1500*time.Millisecond))
	}
	w.sweep()
	return w
}

func (w *world) sweep() {
	w.laws.sweep()
	w.after(sweepEvery, w.sweep)
}

// ending is the end of something that goes on for a while.
type ending struct{ do func() }

func (e *ending) come() {
	if do := e.do; do != nil {
		e.do = nil
		do()
	}
}

// until has something end after a while, or when all faults do.
func (w *world) until(d time.Duration, do func()) {
	e := &ending{do}
	w.pending = append(w.pending, e)
	w.after(d, e.come)
}

// heal ends all that is wrong.
func (w *world) heal() {
	w.note("all faults end")
	for len(w.pending) > 0 {
		e := w.pending[0]
		w.pending = w.pending[1:]
		e.come()
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

// note tells people what happened.
func (w *world) note(format string, of ...any) {
	if w.notes != nil {
		fmt.Fprintf(w.notes, "# %s %s\n", w.now, fmt.Sprintf(format, of...))
	}
}

func (w *world) member(name string) *Cluster {
	return w.members[slices.IndexFunc(w.members, func(c *Cluster) bool { return c.name == name })]
}

// link is that of a process to a cluster. It outlives the process.
func (w *world) link(process string, c *Cluster) *link {
	name := process + ">" + c.name
	l := w.links[name]
	if l == nil {
		l = &link{schedule: &w.schedule, rng: newRNG(w.seed, name), name: name, cluster: c, home: c, latency: time.Millisecond}
		w.links[name] = l
	}
	return l
}

func (w *world) memberChanged(c *Cluster, ch change) {
	w.lived = max(w.lived, w.now)
	w.truths[c.name].observe(w.now, ch)
	o := ch.after
	if o == nil {
		o = ch.before
	}
	w.laws.changed(c, o)
	if w.notes != nil {
		w.note("%s: %s", c.name, describe(ch))
	}
}

// ingressChanged has the controllers of the ingress cluster do their part.
func (w *world) ingressChanged(ch change) {
	o := ch.after
	if o == nil {
		o = ch.before
	}
	w.laws.changed(w.ingress, o)
	if w.notes != nil && kindOf(o) != Leases {
		w.note("ingress: %s", describe(ch))
	}
	svc, ok := o.(*corev1.Service)
	switch {
	case !ok:
	case ch.after == nil:
		w.left[idOf(svc)] = w.now
		w.after(w.ingress.within(100*time.Millisecond, 3*time.Second), func() { w.collect(svc) })
	case len(svc.Spec.Selector) > 0:
		w.after(w.ingress.within(100*time.Millisecond, time.Second), func() { w.empty(svc) })
	}
}

// collect is the garbage collector: what a Service owned that is gone goes, too.
func (w *world) collect(svc *corev1.Service) {
	for _, o := range w.ingress.all(EndpointSlices, svc.Namespace) {
		if slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == svc.UID }) {
			w.ingress.remove(o)
		}
	}
}

// empty is the endpoints controller: it finds no pods for a selector in the ingress cluster.
func (w *world) empty(svc *corev1.Service) {
	now, _ := w.ingress.get(idOf(svc)).(*corev1.Service)
	if now != nil && len(now.Spec.Selector) > 0 {
		w.ingress.edit(ID{Endpoints, svc.Namespace, svc.Name}, func(o Object) { o.(*corev1.Endpoints).Subsets = nil })
	}
}

// stood reports whether a Service stands in the ingress cluster, or did a short time before some
// moment.
func (w *world) stood(id ID, when time.Duration) bool {
	at, left := w.left[id]
	return w.ingress.get(id) != nil || left && when-at < settled
}

// lately reports whether something happened, and a Lease has not run out since.
func (w *world) lately(at time.Duration) bool { return at != 0 && w.now-at < leaseTime }

// excludes reports whether nothing is to be written of a replica.
func (w *world) excludes(key syncer.Key) bool {
	ns, _ := w.ingress.get(ID{Kind: Namespaces, Name: key.Namespace}).(*corev1.Namespace)
	return key.Namespace == w.config.Excluded || ns != nil && ns.DeletionTimestamp != nil
}

// foreign reports whether a Service of somebody else's stands in the way.
func (w *world) foreign(key syncer.Key) bool {
	o := w.ingress.get(ID{Services, key.Namespace, key.Name})
	return o != nil && !ours(o)
}

func (w *world) foreignEndpoints(key syncer.Key) bool {
	o := w.ingress.get(ID{Endpoints, key.Namespace, key.Name})
	return o != nil && !ours(o)
}

// orphaned reports whether what stands of a replica is kept for members that are not
// configured.
func (w *world) orphaned(key syncer.Key) bool {
	inSlices, inEndpoints := w.stands(key)
	for _, at := range append(sortedPlaces(inSlices), sortedPlaces(inEndpoints)...) {
		if w.mayStay(at) {
			return true
		}
	}
	for _, o := range w.ingress.all(EndpointSlices, key.Namespace) {
		if l := o.GetLabels(); l[syncer.LabelServiceName] == key.Name && w.config.member(l[syncer.LabelSourceCluster]) == nil {
			return true
		}
	}
	return false
}

// inTheWay is when the ingress cluster last had in the way what stops the writes that would end
// a difference.
func (w *world) inTheWay(key syncer.Key, d difference) time.Duration {
	for _, o := range w.obstacles {
		inSlices, inEndpoints := w.stands(key)
		stands := slices.ContainsFunc(append(sortedPlaces(inSlices), sortedPlaces(inEndpoints)...), func(at place) bool { return at.addr == o.address })
		if (o.namespace == "" || o.namespace == key.Namespace) && (o.removals || stands || d.law != Hard || w.replaced(key, d)) {
			return w.now
		}
	}
	return w.obstructed
}

// replaced reports whether another endpoint is to take the place of one that is not offered, which
// serves only if that does: to write it is no removal.
func (w *world) replaced(key syncer.Key, d difference) bool {
	inSlices, stands := w.stands(key)
	if d.kind == EndpointSlices {
		stands = inSlices
	}
	e := stands[d.at]
	return slices.ContainsFunc(w.members, func(c *Cluster) bool {
		return (d.at.member == "" || d.at.member == c.name) && slices.ContainsFunc(w.offersOf(c, key), func(of offer) bool {
			same := of.addr == d.at.addr && of.uid != d.at.uid && (of.endpoints || d.kind == EndpointSlices)
			return same && of.ports == e.ports && (!e.ready || of.grade != unserved || of.ready)
		})
	})
}

// hangs reports whether requests to the ingress cluster hang, or did a short time ago.
func (w *world) hangs() bool {
	return w.lately(w.hung) || slices.ContainsFunc(w.obstacles, func(o obstacle) bool { return o.hangs })
}

// classes reports whether endpoints may be better than others.
func (w *world) classes() bool {
	return w.config.Failover || slices.ContainsFunc(w.config.Members, func(m MemberConfig) bool { return m.Drain || m.Stale > 0 || m.StableFor > 0 })
}

// leader is the process that may write; nil: none may.
func (w *world) leader() *Process {
	for _, p := range w.processes {
		if p.leads() {
			return p
		}
	}
	return nil
}

// member is how a process sees a member; nil: not at all.
func (p *Process) member(name string) *seen { return memberOf(p.members, name) }

// shown is what first told of a revision of pods; nil: nothing has.
func (m *seen) shown(namespace string, revision uint64) *telling {
	if f := m.stream(member.Pods, namespace); f != nil {
		return f.shown(revision)
	}
	return nil
}

// admit is what stands before the ingress cluster's store.
func (w *world) admit(id ID, before, after Object) error {
	if id.Kind == Leases {
		return nil
	}
	for _, o := range w.obstacles {
		if o.namespace != "" && o.namespace != id.Namespace {
			continue
		}
		hit := o.removals
		stood := map[string]bool{}
		for at := range placesOf(before) {
			stood[at.addr] = true
		}
		for at := range placesOf(after) {
			hit = hit || at.addr == o.address || o.additions && !stood[at.addr]
		}
		switch {
		case hit && o.hangs:
			return errHangs
		case hit:
			return forbidden(id, "admission webhook denied the request")
		}
	}
	return nil
}

// describe says for people what a change is.
func describe(c change) string {
	o, verb := c.after, "changed"
	switch {
	case c.before == nil:
		verb = "made"
	case c.after == nil:
		o, verb = c.before, "gone"
	}
	text := fmt.Sprintf("%s %s (revision %d)", idOf(o), verb, c.revision)
	switch o := o.(type) {
	case *corev1.Pod:
		text += fmt.Sprintf(" %s %s ready=%t", o.UID[24:], o.Status.PodIP, isReady(o))
		if o.DeletionTimestamp != nil {
			text += " terminating"
		}
	case *corev1.Service:
		text += fmt.Sprintf(" selector=%v", o.Spec.Selector)
	default:
		for _, at := range sortedPlaces(placesOf(o)) {
			e := placesOf(o)[at]
			text += fmt.Sprintf(" %s/%s=%t:%s", at.addr, at.uid[min(24, len(at.uid)):], e.ready, e.ports)
		}
	}
	return text
}

func sortedKeys[V any](of map[syncer.Key]V) []syncer.Key {
	if len(of) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(of), syncer.Key.Compare)
}

func comparePlaces(a, b place) int {
	return strings.Compare(a.addr+" "+a.uid+" "+a.member, b.addr+" "+b.uid+" "+b.member)
}

func sortedPlaces[V any](of map[place]V) []place {
	if len(of) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(of), comparePlaces)
}

func sortedDifferences(of map[difference]time.Duration) []difference {
	return slices.SortedFunc(maps.Keys(of), func(a, b difference) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}
