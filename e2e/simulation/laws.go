// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Law is the name of a law.
type Law string

// The laws, as the design names them.
const (
	Hard      Law = "HARD"      // what was seen to go is removed within its bound
	NoWipe    Law = "NOWIPE"    // no doubt leaves a replica without a ready endpoint
	NoPhantom Law = "NOPHANTOM" // every address written was a live pod's; what is gone does not come back
	Owned     Law = "OWNED"     // no foreign object is changed, and every write has a precondition
	Isolated  Law = "ISOLATED"  // an endpoint that is known to serve is not removed
	Zero      Law = "ZERO"      // nothing changed, nothing written
	Leader    Law = "LEADER"    // only the leader writes
	Conv      Law = "CONV"      // when faults end, what is published converges to what the members' state demands
	Order     Law = "ORDER"     // the Service is created first; the ports of a slice never change
	Fair      Law = "FAIR"      // an endpoint that serves is published within its bound
	Demoted   Law = "DEMOTED"   // a reserve does not go on serving beside a better endpoint
	Bounded   Law = "BOUNDED"   // queues and requests in flight are bounded, and drain
)

// Broken is a law that was broken.
type Broken struct {
	Law  Law
	At   time.Duration
	Text string
}

// Error implements error.
func (b *Broken) Error() string { return fmt.Sprintf("%s after %s: %s", b.Law, b.At, b.Text) }

// The bounds of laws. A fault that has ended may have left the longest backoff behind.
const (
	hardBound  = 5 * time.Second
	hangBound  = 10 * time.Second // more where requests hang: for one in flight, and its own
	fairBound  = 15 * time.Second
	convBound  = 200 * time.Second
	settled    = 6 * time.Second // after a change, for what is in flight
	pauses     = 37 * time.Second
	restores   = 75 * time.Second
	onItsWay   = 2 * time.Second
	goAhead    = 100              // other writes that may precede a removal: those in flight, and removals
	probeTime  = 10 * time.Second // until a restored store is noticed
	sweepEvery = time.Second
)

// laws is what the laws remember of a case.
type laws struct {
	broken *Broken
	ever   map[syncer.Key]bool // all replicas that any cluster ever had a Service for
	// open are the differences between the truth and what is published, with their start.
	open map[difference]time.Duration
	// still is true while nothing may be written, whatever is restarted.
	still   bool
	removed map[place]time.Duration // when dead endpoints were removed that have not come back since
	writes  int
	wrote   time.Duration // when the last one took effect
}

// breaks records the first law that is broken.
func (w *world) breaks(law Law, format string, of ...any) {
	if w.broken == nil {
		w.broken = &Broken{law, w.now, fmt.Sprintf(format, of...)}
		w.note("%s is broken: %s", law, w.broken.Text)
	}
}

// sweep compares each replica with the truth, and checks for differences that last too long and
// for queues that grow too long.
func (w *world) sweep() {
	now := map[difference]time.Duration{}
	hangs := w.lately(hung) || slices.ContainsFunc(w.obstacles, func(o obstacle) bool { return o.hangs })
	for key := range w.ever {
		for _, d := range w.differences(key) {
			now[d] = w.now
			if since, known := w.open[d]; known {
				now[d] = since
			}
		}
	}
	w.open = now
	for _, d := range sorted(w.open) {
		bound := fairBound
		if d.law != Fair && !w.replaced(d) {
			if bound = hardBound; hangs {
				bound += hangBound
			}
		}
		from := max(now[d], w.excused(d))
		if from >= w.now { // what excuses it now may not be recorded
			now[d] = w.now
		} else if w.now-from > bound {
			w.breaks(d.law, "%s %s: %s %s since %s, and nothing has been in the way since %s", d.key, d.kind, d.at, d.text, now[d], from)
		}
	}
	for _, p := range w.processes {
		if most := len(w.ever); p.core.Waiting() > most || p.underWay > lanes.Places {
			w.breaks(Bounded, "%s has %d of %d replicas to compare, and %d requests under way", p.name, p.core.Waiting(), most, p.underWay)
		}
	}
}

// late is until when an event may have left a backoff behind.
func late(at time.Duration) time.Duration {
	if at == 0 {
		return 0
	}
	return at + pauses
}

// excused is since when nothing excuses a difference.
func (w *world) excused(d difference) time.Duration {
	p := w.leader()
	if p == nil || w.excludes(d.key) {
		return w.now
	}
	from := max(p.since+settled, w.at[thawed+p.name]+settled, w.at[restored+w.ingress.name]+probeTime+settled, late(p.ingress.healthySince()), w.at[configured]+settled, late(w.inTheWay(d)))
	for _, c := range w.members {
		m, lies := p.members[c.name], w.at[lied+c.name]+settled
		svc := w.serviceOf(c, d.key)
		byHand := svc != nil && svc.Spec.Selector == nil // its endpoints may have any address
		if d.law == Hard && w.now >= lies && m != nil && !byHand {
			if told := w.reused(d.at, m); told != nil { // no question is needed
				from = max(from, told.at)
				continue
			}
		}
		if m == nil || d.kind == model.EndpointSlices && w.owner(d.at) != c.name && (d.law == Hard || !w.classes() && c.store == 0) {
			continue
		}
		if told := w.ended(p, d.at); d.law == Hard && told != nil && w.owner(d.at) == c.name && !byHand {
			from = max(from, told.at)
			continue
		}
		healthy := w.link(p.name, c).healthySince()
		if back := max(w.at[restored+c.name], w.at[thawed+p.name], healthy); c.store > 0 {
			if from = max(from, back+probeTime+settled); d.law == Hard || svc == nil || byHand || w.lacking(d) {
				from = max(from, back+restores)
			}
		}
		from = max(from, late(healthy), lies)
	}
	return from
}

// lacking reports whether a replica has an endpoint of a pod that is gone: while that is asked for, it
// serves in its class.
func (w *world) lacking(d difference) bool {
	return w.published(d.kind, d.key).some(func(at place, e entry) bool { return e.ready && w.pods[at.uid] != nil && w.pods[at.uid].dead })
}

// judge checks a write that took effect.
func (w *world) judge(a *attempt, before, after model.Object) {
	p := a.process
	w.writes, w.wrote = w.writes+1, w.now
	if w.still && !w.foreign(model.Services, a.action.Replica) {
		w.breaks(Zero, "%s %s %s, though nothing has changed (%s)", p.name, a.action.Verb, a.id, a.action.Why)
	}
	if !a.lawful && !w.lately(restored+w.ingress.name) && !w.lately(unleased) { // the former holder may not know yet
		w.breaks(Leader, "%s writes %s, and holds no permit by the Lease", p.name, a.id)
	}
	switch {
	case before != nil && !ours(before):
		w.breaks(Owned, "%s %s %s, which is not ours", p.name, a.action.Verb, a.id)
	case !a.bound:
		w.breaks(Owned, "%s %s %s without a precondition", p.name, a.action.Verb, a.id)
	case after != nil && before == after && !w.edits:
		w.breaks(Zero, "%s writes %s unchanged (%s)", p.name, a.id, a.action.Why)
	}
	if was, _ := before.(*discoveryv1.EndpointSlice); was != nil && after != nil && !equality.Semantic.DeepEqual(was.Ports, after.(*discoveryv1.EndpointSlice).Ports) {
		w.breaks(Order, "the ports of slice %s change", a.id)
	}
	written := a.id.Kind == model.EndpointSlices || a.id.Kind == model.Endpoints
	service := model.Services.ID(a.action.Replica.Namespace, a.action.Replica.Name)
	stale := w.lately(thawed+p.name) || w.lately(restored+w.ingress.name) || a.sent < max(w.at[gone+service.String()], p.ingress.healthySince())+settled
	if before == nil && written && !stale && w.ingress.Find(service) == nil {
		w.breaks(Order, "%s is made before its Service", a.id)
	}
	if a.id.Kind == model.EndpointSlices || a.id.Kind == model.Endpoints && w.config.WriteEndpoints && p.config == w.config && a.sent-p.configured > settled {
		w.traffic(a, before, after)
	}
}

// traffic checks what a write does to traffic.
func (w *world) traffic(a *attempt, before, after model.Object) {
	was, is := placesOf(before), placesOf(after)
	now, other := w.published(model.EndpointSlices, a.action.Replica), w.published(model.Endpoints, a.action.Replica)
	if a.id.Kind == model.Endpoints {
		now, other = other, now
	}
	var lost []place
	for _, at := range sorted(was) {
		if p := w.pods[at.uid]; !now.has(at) && !other.has(at) && (p == nil || p.dead) {
			w.removed[at] = w.now
		}
		if was[at].ready && !now[at].ready {
			lost = append(lost, at)
			w.lost(a, at, now)
			w.waited(a, at)
		}
	}
	if len(lost) > 0 && !now.serve() {
		w.wiped(a, lost)
	}
	for at, e := range is {
		if !was.has(at) && !other.has(at) {
			w.came(a, at, e.member)
		}
	}
}

// came checks an endpoint that was added, as one of a member, or of any if member is "".
func (w *world) came(a *attempt, at place, member string) {
	p, owner := w.pods[at.uid], w.owner(at)
	switch {
	case owner == "" || member != "" && member != owner, p == nil && at.uid != "", p != nil && !slices.Contains(p.addrs, at.addr):
		w.breaks(NoPhantom, "%s writes %s into %s, which never was", a.process.name, at, a.id)
	case p == nil || !p.dead || w.removed[at] == 0 || w.removed[at] >= a.sent || w.lately(thawed+a.process.name):
	case w.ended(a.process, at) == nil && w.recent(restored+owner, restores): // the restored store lacks it: it will be asked for
	case a.knew[owner].follows && a.knew[owner].pods < p.last: // its stream has yet to tell of the end
	case a.sent-p.at > settled:
		w.breaks(NoPhantom, "%s writes %s into %s, which has been gone since %s", a.process.name, at, a.id, p.at)
	}
	delete(w.removed, at)
}

// lost checks whether an endpoint that no longer serves could have, by all that is known.
func (w *world) lost(a *attempt, at place, now view) {
	p := w.pods[at.uid]
	if p == nil || !w.certain(a, at) || p.cluster.lacked[at.uid] && w.lately(lied+p.cluster.name) && w.lately(restored+w.ingress.name) {
		return // it need not have been known, or was dropped without a question while it was not published
	}
	better, serving := w.classes() && w.lately(meddled), now.serve() // others may be better, or were
	classes := w.classes() || a.knew[p.cluster.name].pods == 0       // until its member is read an endpoint has its published grade
	for _, e := range w.offersOf(p.cluster, a.action.Replica) {
		if e.place != at || !e.inEndpoints && a.id.Kind == model.Endpoints || e.grade == unserved {
			continue
		}
		if e.grade == serves && !e.unsure && !(now.has(at) && (better || serving && classes)) {
			w.breaks(Isolated, "%s takes %s out of %s, which has been ready since %s (%s)", a.process.name, at, a.id, p.at, a.action.Why)
		}
		if !serving && !better {
			w.breaks(NoWipe, "%s leaves %s without a ready endpoint, and %s could serve since %s (%s)", a.process.name, a.id, at, p.at, a.action.Why)
		}
	}
}

// waited checks how many other writes preceded the removal of a dead endpoint, while nothing was
// in the way, not even a request for the same object. A restored store has again what was removed before.
func (w *world) waited(a *attempt, at place) {
	p, told := a.process, w.ended(a.process, at)
	if told == nil || len(w.obstacles) > 0 || w.lately(obstructed) {
		return
	}
	if told.at >= max(w.pods[at.uid].at, p.since+settled, late(p.ingress.healthySince()), late(w.at[thawed+p.name]), w.at[restored+w.ingress.name]) && w.writes-max(told.writes, p.answered[a.id]) > goAhead {
		w.breaks(Hard, "%s takes %s out of %s behind %d other writes", p.name, at, a.id, w.writes-max(told.writes, p.answered[a.id]))
	}
}

// wiped checks a replica that no longer serves because a selector left its endpoints, though
// others had long been there to replace them.
func (w *world) wiped(a *attempt, lost []place) {
	key := a.action.Replica
	if w.classes() && w.lately(meddled) || w.lately(restored+w.ingress.name) || w.foreign(model.Services, key) || w.foreign(model.Endpoints, key) || !w.agree(key) {
		return
	}
	for _, c := range w.members {
		svc, knew := c.services[key], a.knew[c.name]
		if svc == nil || svc.dropped+settled >= svc.at || knew.services < svc.since {
			continue
		}
		if knew.store != c.store && c.began > c.backup.Revision && w.recent(restored+c.name, acceptTimeout+settled) {
			continue // of its pods a watch has ended, and the next one, which finds that the revisions were skipped, is not accepted yet: no gap
		}
		left := slices.ContainsFunc(lost, func(at place) bool {
			p := w.pods[at.uid]
			return p != nil && p.cluster == c && (p.good && p.addr == at.addr || c.back(svc) && p.dead && c.back(&p.lastChange))
		})
		if !left {
			continue
		}
		for _, e := range w.offersOf(c, key) {
			p, at := w.pods[e.uid], svc.at
			if e.grade == unserved || p == nil || !e.inEndpoints && a.id.Kind == model.Endpoints || p.at+settled >= at && !c.back(&p.lastChange) || knew.store == c.store && knew.pods < p.since && knew.follows {
				continue
			}
			has := func(o model.Object) bool { return placesOf(o).has(e.place) }
			if c.lacked[e.uid] && w.lately(lied+c.name) && (c.back(&p.lastChange) || !slices.ContainsFunc(w.ingress.All(model.EndpointSlices, key.Namespace), has)) {
				continue // no replica has it, or had it for long: it was dropped without a question
			}
			w.after(onItsWay, func() { // the write of its replacement may be in flight
				serves := w.published(model.EndpointSlices, key).serve() || w.published(model.Endpoints, key).serve()
				may := w.leader() == a.process && !a.process.ingress.sick() && len(w.obstacles) == 0 && !w.lately(obstructed) && !w.excludes(key)
				if may && !serves && c.services[key].at == at && p.good && w.serviceOf(c, key) != nil {
					w.breaks(NoWipe, "%s leaves %s without a ready endpoint, and %s could serve since %s (%s)", a.process.name, a.id, e.place, p.at, a.action.Why)
				}
			})
		}
	}
}

// certain reports whether a process must have known the present state of the pod of an endpoint, and of
// its Service.
func (w *world) certain(a *attempt, at place) bool {
	p, pod, key := a.process, w.pods[at.uid], a.action.Replica
	c := pod.cluster
	svc, served := c.services[key]
	knew, followed := a.knew[c.name]
	firm := func(of *lastChange, reached uint64) bool { // unchanged for a while, and what was read is not older
		return w.now-of.at >= settled && (reached == 0 || reached >= of.since)
	}
	return served && followed && firm(svc, knew.services) && firm(&pod.lastChange, knew.pods) && knew.store == c.store && a.level && w.agree(key) && !w.excludes(key) &&
		p.config == w.config && a.sent-p.configured > settled && !w.lately(thawed+p.name) && !w.unnamed(a, c, at)
}

// unnamed reports whether a process could not tell whose an endpoint of Endpoints was, or who serves: it has read
// another member but not yet this one, and its cache has no slice that names the endpoint's member;
// or its cache has a former state of a slice of a member that it has not read.
func (w *world) unnamed(a *attempt, c *Cluster, at place) bool {
	read := func(c *Cluster) bool { return a.knew[c.name].pods != 0 && a.knew[c.name].services != 0 }
	named := func(s plan.Slice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e syncer.Endpoint) bool { return e.Addr.String() == at.addr && e.Target.UID == at.uid })
	}
	former := func(s plan.Slice) bool {
		is := w.ingress.Find(model.EndpointSlices.ID(a.id.Namespace, s.Name))
		of := first(w.members, func(c *Cluster) bool { return c.name == plan.MemberOf(a.action.Replica, &s) })
		return of != nil && !read(of) && (is == nil || is.GetResourceVersion() != s.ResourceVersion)
	}
	return a.id.Kind == model.Endpoints && (slices.ContainsFunc(a.slices, former) || !read(c) && slices.ContainsFunc(w.members, read) && !slices.ContainsFunc(a.slices, named))
}

// convergence describes what still differs, "" if nothing does.
func (w *world) convergence() string {
	w.sweep()
	var text []string
	for _, d := range sorted(w.open) {
		text = append(text, fmt.Sprintf("%s %s: %s %s", d.key, d.kind, d.at, d.text))
	}
	for _, svc := range w.ingress.All(model.Services, "") {
		key := keyOf(svc)
		wanted := slices.ContainsFunc(w.members, func(c *Cluster) bool { return w.serviceOf(c, key) != nil })
		if ours(svc) && !wanted && !w.excludes(key) && !w.foreign(model.Endpoints, key) && !w.orphaned(key) {
			text = append(text, key.String()+": nobody has the Service any more")
		}
	}
	for _, o := range w.ingress.All(model.EndpointSlices, "") {
		of := w.ingress.Find(model.Endpoints.ID(o.GetNamespace(), o.GetLabels()[syncer.LabelServiceName]))
		if o.GetLabels()[syncer.LabelSliceManagedBy] == syncer.SliceMirrored && of != nil && ours(of) {
			text = append(text, "what is ours is mirrored in "+model.IDOf(o).String())
		}
	}
	return strings.Join(text, "\n")
}
