// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/syncer"
)

// Law is one that was broken.
type Law string

// The laws, as the design names them.
const (
	Hard      Law = "HARD"      // what was seen to go is taken out within its bound
	NoWipe    Law = "NOWIPE"    // no doubt leaves a replica without a ready endpoint
	NoPhantom Law = "NOPHANTOM" // what is written was a live pod's; what is gone does not come back
	Owned     Law = "OWNED"     // nothing of others is changed, and every write has a precondition
	Isolated  Law = "ISOLATED"  // what serves, and is known to, is not taken away
	Zero      Law = "ZERO"      // nothing changed, nothing written
	Leader    Law = "LEADER"    // one process writes
	Conv      Law = "CONV"      // when faults end, what stands is what the members' state demands
	Order     Law = "ORDER"     // Service, slices, Endpoints; the ports of a slice never change
	Fair      Law = "FAIR"      // what serves is published within its bound
	Demoted   Law = "DEMOTED"   // a reserve does not go on serving beside who is better
	Bounded   Law = "BOUNDED"   // queues and requests stay within their bounds
)

// Broken is a law that was broken.
type Broken struct {
	Law  Law
	At   time.Duration
	Text string
}

// Error implements error.
func (b *Broken) Error() string { return fmt.Sprintf("%s after %s: %s", b.Law, b.At, b.Text) }

// The bounds of laws. A fault that has ended may have left the longest of pauses behind.
const (
	hardBound  = 5 * time.Second
	hangBound  = 10 * time.Second // more, where requests hang: for one that is under way, and its own
	fairBound  = 15 * time.Second
	convBound  = 200 * time.Second
	settled    = 6 * time.Second // after a change, for what is under way
	pauses     = 37 * time.Second
	restores   = 75 * time.Second
	comesLate  = 30 * time.Second
	onItsWay   = 2 * time.Second
	probeTime  = 10 * time.Second // until a store that went back is noticed
	sweepEvery = time.Second
)

// laws watch over a world.
type laws struct {
	world  *world
	broken *Broken
	dirty  map[syncer.Key]bool
	// open are the differences between truth and what stands, since when each is.
	open map[syncer.Key]map[difference]time.Duration
	// still is true while nothing may be written, though anything may be restarted.
	still bool
	// removed is what processes took out.
	removed map[place]bool
	writes  int
}

// difference is what stands otherwise than it should.
type difference struct {
	law  Law
	kind Kind
	at   place
	text string
}

func newLaws(w *world) *laws {
	return &laws{world: w, dirty: map[syncer.Key]bool{}, open: map[syncer.Key]map[difference]time.Duration{}, removed: map[place]bool{}}
}

// breaks notes the first law that was broken.
func (l *laws) breaks(law Law, format string, of ...any) {
	if l.broken == nil {
		l.broken = &Broken{law, l.world.now, fmt.Sprintf(format, of...)}
		l.world.note("%s is broken: %s", law, l.broken.Text)
	}
}

// changed takes in that something of a cluster changed.
func (l *laws) changed(c *Cluster, o Object) {
	switch key := (syncer.Key{Namespace: o.GetNamespace(), Name: o.GetName()}); o := o.(type) {
	case *corev1.Pod:
		for _, svc := range c.all(Services, o.Namespace) {
			l.dirty[keyOf(svc)] = true
		}
	case *discoveryv1.EndpointSlice:
		key.Name = o.Labels[syncer.LabelServiceName]
		l.dirty[key] = true
	default:
		l.dirty[key] = true
	}
}

// allDirty has every replica looked at.
func (l *laws) allDirty() {
	for _, c := range l.world.clusters {
		for _, svc := range c.all(Services, "") {
			l.dirty[keyOf(svc)] = true
		}
	}
	for key := range l.open {
		l.dirty[key] = true
	}
}

// sweep looks at replicas of which anything changed, and at what is overdue.
func (l *laws) sweep() {
	w := l.world
	for _, key := range sortedKeys(l.dirty) {
		now := map[difference]time.Duration{}
		for _, d := range w.differences(key) {
			since, known := l.open[key][d]
			if !known {
				since = w.now
			}
			now[d] = since
		}
		if l.open[key] = now; len(now) == 0 {
			delete(l.open, key)
		}
		delete(l.dirty, key)
	}
	for _, key := range sortedKeys(l.open) {
		for _, d := range sortedDifferences(l.open[key]) {
			since, bound := l.open[key][d], fairBound
			if d.law == Hard || d.law == Demoted {
				if bound = hardBound; w.hangs() {
					bound += hangBound
				}
			}
			if from := max(since, l.excused(key, d)); w.now-from > bound {
				l.breaks(d.law, "%s %s: %s %s since %s, and nothing has been in the way since %s", key, d.kind, d.at, d.text, since, from)
			}
		}
	}
}

// excused is since when nothing excuses a difference any more.
func (l *laws) excused(key syncer.Key, d difference) time.Duration {
	w := l.world
	p := w.leader()
	if p == nil {
		return w.now
	}
	late := func(at time.Duration) time.Duration {
		if at == 0 {
			return 0
		}
		return at + pauses
	}
	from := max(p.since+pauses, late(p.thawed), late(w.ingress.restored), late(p.ingress.healthySince()), w.configured+settled, late(w.inTheWay(key, d)))
	if w.excludes(key) {
		return w.now
	}
	for _, c := range w.members {
		t, m := w.truths[c.name], p.member(c.name)
		svc, lied := w.serviceOf(c, key), c.lied != 0 && w.now-c.lied < pauses
		if d.law == Hard && !lied && m != nil && (svc == nil || svc.Spec.Selector != nil) { // by hand any address may be written
			if told := t.reused(d.at, m, key.Namespace); told != nil { // nobody needs to ask
				if from = max(from, told.at); t.restored != 0 {
					from = max(from, t.restored+settled+probeTime)
				}
				continue
			}
		}
		if t.restored != 0 {
			from = max(from, max(t.restored, p.thawed, w.link(p.name, c).healthySince())+restores)
		}
		if m == nil || d.at.member != "" && d.at.member != c.name && (d.law == Hard || !w.classes()) {
			continue
		}
		var told *telling
		if p := t.pods[d.at.uid]; d.law == Hard && p != nil && p.dead {
			told = m.shown(key.Namespace, p.last)
		}
		if told != nil && !told.list { // what a list lacks is asked for first
			from = max(from, told.at)
		} else {
			from = max(from, late(m.way.healthySince()), late(c.lied))
		}
	}
	return from
}

// judge looks at a write that took effect.
func (l *laws) judge(a *attempt, before, after Object) {
	l.writes++
	w := l.world
	if l.still && !w.foreign(a.action.Replica) {
		l.breaks(Zero, "%s %s %s, though nothing has changed (%s)", a.process.name, a.action.Verb, a.id, a.action.Why)
	}
	if !a.lawful && !w.lately(w.ingress.restored) && !w.lately(w.unleased) { // whose Lease it was may not know yet
		l.breaks(Leader, "%s writes %s, and holds no permit by the Lease", a.process.name, a.id)
	}
	switch {
	case before != nil && !ours(before):
		l.breaks(Owned, "%s %s %s, which is not ours", a.process.name, a.action.Verb, a.id)
	case !a.bound:
		l.breaks(Owned, "%s %s %s without a precondition", a.process.name, a.action.Verb, a.id)
	case after != nil && before == after && !w.edits:
		l.breaks(Zero, "%s writes %s as it stands (%s)", a.process.name, a.id, a.action.Why)
	}
	l.order(a, before, after)
	if a.id.Kind == EndpointSlices || a.id.Kind == Endpoints && !w.config.OnlySlices && !w.lately(w.configured) {
		l.traffic(a, before, after)
	}
}

// order looks at the order of writes.
func (l *laws) order(a *attempt, before, after Object) {
	if p := a.process; l.world.lately(p.thawed) || l.world.lately(l.world.ingress.restored) || p.ingress.healthySince() != 0 && l.world.now-p.ingress.healthySince() < pauses {
		return // it may not know what stands
	}
	switch is := after.(type) {
	case *discoveryv1.EndpointSlice:
		if before != nil {
			was := before.(*discoveryv1.EndpointSlice)
			if len(was.Endpoints)+len(is.Endpoints) > 0 && !slices.EqualFunc(was.Ports, is.Ports, func(a, b discoveryv1.EndpointPort) bool { return *a.Port == *b.Port && *a.Name == *b.Name }) && !l.world.edited[idOf(is)] {
				l.breaks(Order, "the ports of slice %s/%s change", is.Namespace, is.Name)
			}
			return
		}
		if !l.world.stood(ID{Services, is.Namespace, is.Labels[syncer.LabelServiceName]}, a.sent) {
			l.breaks(Order, "slice %s/%s is made before its Service", is.Namespace, is.Name)
		}
	case *corev1.Endpoints:
		if before == nil && !l.world.stood(ID{Services, is.Namespace, is.Name}, a.sent) {
			l.breaks(Order, "Endpoints %s/%s are made before their Service", is.Namespace, is.Name)
		}
	}
}

// traffic looks at what a write means for traffic.
func (l *laws) traffic(a *attempt, before, after Object) {
	was, is := view{}, view{}
	if before != nil {
		was = placesOf(before)
	}
	if after != nil {
		is = placesOf(after)
	}
	key := a.action.Replica
	now, other := l.world.stands(key)
	if a.id.Kind == Endpoints {
		now, other = other, now
	}
	ready := serve(now)
	var lost []place
	for _, at := range sortedPlaces(was) {
		if e := was[at]; e.ready && !now[at].ready {
			if lost = append(lost, at); !now.has(at) && !other.has(at) {
				l.removed[at] = true
			}
			l.lost(a, key, at, now, ready)
		}
	}
	if len(lost) > 0 && !ready {
		l.wiped(a, key, lost)
	}
	for _, at := range sortedPlaces(is) {
		if _, before := was[at]; !before && !other.has(at) {
			l.came(a, at)
		}
	}
}

// came looks at an endpoint that was added.
func (l *laws) came(a *attempt, at place) {
	for name, t := range l.world.truths {
		if at.member != "" && at.member != name {
			continue
		}
		p := t.pods[at.uid]
		if at.uid == "" && t.hand[at.addr] || p != nil && slices.Contains(p.addrs, at.addr) {
			if p != nil && p.dead && l.removed[at] && !l.world.lately(a.process.thawed) && !t.wasRestored(l.world.now) && a.sent-p.at > settled && (a.sent-p.at > comesLate || !a.knew[name].follows) {
				l.breaks(NoPhantom, "%s writes %s into %s, which has been gone since %s", a.process.name, at, a.id, p.at)
			}
			return
		}
	}
	l.breaks(NoPhantom, "%s writes %s into %s, which never was", a.process.name, at, a.id)
}

// lost looks at an endpoint that does not serve any more.
func (l *laws) lost(a *attempt, key syncer.Key, at place, now view, ready bool) {
	w := l.world
	for _, c := range w.members {
		if at.member != "" && at.member != c.name || !w.certain(a, c, key) || w.unnamed(a, c, key, at) {
			continue
		}
		offers, t := w.offersOf(c, key), w.truths[c.name]
		i := slices.IndexFunc(offers, func(e offer) bool {
			return e.addr == at.addr && e.uid == at.uid && (e.endpoints || a.id.Kind == EndpointSlices)
		})
		if i < 0 || offers[i].grade != serves || offers[i].unsure || t.pods[at.uid] == nil || !w.firm(a, c, &t.pods[at.uid].lately, Pods) {
			continue
		}
		if _, there := now[at]; there && w.classes() && (ready || w.lately(w.meddled)) {
			continue // others may be better, or were
		}
		l.breaks(Isolated, "%s takes %s out of %s, which has been ready since %s (%s)", a.process.name, at, a.id, t.pods[at.uid].at, a.action.Why)
	}
}

// wiped looks at a replica that serves no more. What it has lost may have been disproved; what
// a selector left while others had long been there to take its place was not.
func (l *laws) wiped(a *attempt, key syncer.Key, lost []place) {
	w := l.world
	for _, c := range w.members {
		t := w.truths[c.name]
		deselected := slices.ContainsFunc(lost, func(at place) bool {
			p := t.pods[at.uid]
			return p != nil && p.good && p.addr == at.addr
		})
		for _, e := range w.offersOf(c, key) {
			p := t.pods[e.uid]
			if e.grade == unserved || p == nil || !e.endpoints && a.id.Kind == Endpoints {
				continue
			}
			same := func(at place) bool { return at.addr == e.addr && at.uid == e.uid }
			doubted := slices.ContainsFunc(lost, same) && w.certain(a, c, key) && !w.unnamed(a, c, key, place{addr: e.addr, uid: e.uid}) && w.firm(a, c, &p.lately, Pods)
			svc := t.services[key]
			instead := deselected && w.agree(key) && !w.foreign(key) && !w.foreignEndpoints(key) && p.at+settled < svc.at && svc.dropped+settled < svc.at && a.knew[c.name].services >= svc.since && (a.knew[c.name].pods >= p.since || !a.knew[c.name].follows) && !t.wasRestored(w.now) && !w.lately(w.ingress.restored)
			broken := func() {
				l.breaks(NoWipe, "%s leaves %s without a ready endpoint, and %s could serve since %s (%s)", a.process.name, a.id, place{e.member, e.addr, e.uid}, p.at, a.action.Why)
			}
			switch at := svc.at; {
			case w.classes() && w.lately(w.meddled):
			case doubted:
				broken()
			case instead: // what takes its place may be on its way
				w.after(onItsWay, func() {
					inSlices, inEndpoints := w.stands(key)
					if t.services[key].at == at && p.good && !serve(inSlices) && !serve(inEndpoints) && w.serviceOf(c, key) != nil && !w.excludes(key) && len(w.obstacles) == 0 && !w.lately(w.obstructed) && w.leader() == a.process && !a.process.ingress.sick() {
						broken()
					}
				})
			}
		}
	}
}

// certain reports whether a process must have a member's Service as it is.
func (w *world) certain(a *attempt, c *Cluster, key syncer.Key) bool {
	t := w.truths[c.name]
	return t.services[key] != nil && w.agree(key) && a.process.config == w.config && a.sent-a.process.configured > settled && !w.lately(a.process.thawed) && !w.excludes(key) && w.firm(a, c, t.services[key], Services)
}

// unnamed reports whether a process could not tell whose an endpoint of Endpoints was: it has yet to read
// the member, it has read another, and somebody has taken away the slice that would say so.
func (w *world) unnamed(a *attempt, c *Cluster, key syncer.Key, at place) bool {
	inSlices, _ := w.stands(key)
	read := func(name string) bool { return a.knew[name].pods != 0 && a.knew[name].services != 0 }
	others := slices.ContainsFunc(w.members, func(other *Cluster) bool { return other != c && read(other.name) })
	return a.id.Kind == Endpoints && !read(c.name) && others && !inSlices.has(at)
}

// firm reports whether a process must know something as it is: it has been so for a while, and
// was shown to the process, or the process has read nothing that could say otherwise.
func (w *world) firm(a *attempt, c *Cluster, of *lately, kind Kind) bool {
	t := w.truths[c.name]
	if w.now-of.at < settled || t.wasRestored(w.now) {
		return false
	}
	knew, followed := a.knew[c.name]
	reached := knew.pods
	if kind == Services {
		reached = knew.services
	}
	return followed && (reached == 0 || reached >= of.since)
}

// convergence reports what still differs; "" when nothing does.
func (l *laws) convergence() string {
	l.allDirty()
	l.sweep()
	w := l.world
	var text []string
	for _, key := range sortedKeys(l.open) {
		for _, d := range sortedDifferences(l.open[key]) {
			text = append(text, fmt.Sprintf("%s %s: %s %s", key, d.kind, d.at, d.text))
		}
	}
	for _, svc := range w.ingress.all(Services, "") {
		key := keyOf(svc)
		wanted := slices.ContainsFunc(w.members, func(c *Cluster) bool { return w.serviceOf(c, key) != nil })
		if ours(svc) && !wanted && !w.excludes(key) && !w.foreignEndpoints(key) && !w.orphaned(key) {
			text = append(text, key.String()+": nobody has the Service any more")
		}
	}
	return strings.Join(text, "\n")
}
