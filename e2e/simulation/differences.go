// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/syncer"
)

// difference is what stands otherwise than it should.
type difference struct {
	law  Law
	kind Kind
	at   place
	text string
}

// differences are those of a replica between the truth and what stands.
func (w *world) differences(key syncer.Key) []difference {
	if w.foreign(Services, key) || w.excludes(key) {
		return nil
	}
	sum := &comparison{world: w, best: unserved * 1000, unsure: !w.agree(key)}
	wanted, together := map[place]offer{}, map[place]offer{}
	for _, c := range w.members {
		for _, e := range w.offersOf(c, key) {
			wanted[e.place] = e
			if e.grade < unserved {
				sum.best = min(sum.best, e.class())
			}
			sum.unsure = sum.unsure || e.unsure
			at := place{addr: e.addr, uid: e.uid}
			if other, two := together[at]; e.inEndpoints && (!two || e.class() < other.class()) {
				together[at] = e
			}
		}
	}
	inSlices, inEndpoints := w.stands(key)
	sum.compare(EndpointSlices, inSlices, wanted)
	if w.config.WriteEndpoints && !w.foreign(Endpoints, key) {
		sum.compare(Endpoints, inEndpoints, together)
	}
	return sum.found
}

// agree reports whether members have the same ports for a replica: where they do not, it is the
// oldest Service that decides, and nobody here knows.
func (w *world) agree(key syncer.Key) bool {
	var first *corev1.Service
	for _, c := range w.members {
		svc := w.serviceOf(c, key)
		if first != nil && svc != nil && !slices.EqualFunc(first.Spec.Ports, svc.Spec.Ports, func(a, b corev1.ServicePort) bool {
			return a.Name == b.Name && a.Port == b.Port && a.Protocol == b.Protocol
		}) {
			return false
		}
		if svc != nil {
			first = svc
		}
	}
	return true
}

// comparison compares what stands with what is wanted. Where it is unsure who serves only the dead
// are looked at.
type comparison struct {
	world  *world
	best   int
	unsure bool
	found  []difference
}

func (s *comparison) compare(kind Kind, stands view, wanted map[place]offer) {
	differs := func(law Law, at place, text string) {
		s.found = append(s.found, difference{law, kind, at, text})
	}
	acknowledged := false
	for at, e := range stands {
		of, offered := wanted[at]
		acknowledged = acknowledged || e.ready && offered && of.grade < unserved && of.class() == s.best
	}
	for at, e := range stands {
		of, offered := wanted[at]
		switch {
		case !offered && !s.world.mayStay(at):
			differs(Hard, at, "stands and is not offered")
		case !offered, s.unsure:
		case e.ready && of.grade == unserved && !of.ready:
			differs(Hard, at, "stands ready and is not")
		case e.ready && of.grade < unserved && of.class() > s.best && acknowledged:
			differs(Demoted, at, "serves beside those who are better")
		case e.ports != of.ports:
			differs(Fair, at, "stands with ports "+e.ports+" instead of "+of.ports)
		}
	}
	for at, of := range wanted {
		e, there := stands[at]
		switch {
		case s.unsure:
		case !there:
			differs(Fair, at, "does not stand")
		case !e.ready && of.ready && (of.grade == unserved || of.class() == s.best):
			differs(Fair, at, "does not stand ready")
		}
	}
}

// mayStay reports whether an endpoint that nobody offers may stay: its member is not
// configured any more.
func (w *world) mayStay(at place) bool {
	return !w.config.DropOrphans && slices.ContainsFunc(w.members, func(c *Cluster) bool {
		its := at.member == c.name || at.member == "" && (at.uid == "" || c.truth.pods[at.uid] != nil)
		return its && w.config.member(c.name) == nil
	})
}

// orphaned reports whether what stands of a replica is kept for members that are not
// configured.
func (w *world) orphaned(key syncer.Key) bool {
	inSlices, inEndpoints := w.stands(key)
	kept := func(at place, _ entry) bool { return w.mayStay(at) }
	if inSlices.some(kept) || inEndpoints.some(kept) {
		return true
	}
	return slices.ContainsFunc(w.ingress.all(EndpointSlices, key.Namespace), func(o Object) bool {
		l := o.GetLabels()
		return l[syncer.LabelServiceName] == key.Name && w.config.member(l[syncer.LabelSourceCluster]) == nil
	})
}

// excludes reports whether nothing is to be written of a replica.
func (w *world) excludes(key syncer.Key) bool {
	ns := of[*corev1.Namespace](w.ingress.Server, ID{Kind: Namespaces, Name: key.Namespace})
	return key.Namespace == w.config.Excluded || ns != nil && ns.DeletionTimestamp != nil
}

// foreign reports whether an object of somebody else's stands in the way.
func (w *world) foreign(kind Kind, key syncer.Key) bool {
	o := w.ingress.get(ID{kind, key.Namespace, key.Name})
	return o != nil && !ours(o)
}

// classes reports whether endpoints may be better than others.
func (w *world) classes() bool {
	return w.config.Failover || slices.ContainsFunc(w.config.Members, func(m MemberConfig) bool { return m.Drain || m.StaleAfter > 0 || m.Options.StableFor > 0 })
}

// obstacle is what a webhook of the ingress cluster does.
type obstacle struct {
	// namespace restricts it; address refuses only what has it, additions what has an address
	// more than before. removals: it stops those, too. limited is a kind of which there are most
	// in the namespace.
	namespace, address         string
	additions, removals, hangs bool
	limited                    Kind
	most                       int
}

// admit is what stands before the ingress cluster's store.
func (w *world) admit(id ID, before, after Object) error {
	stood, stands := placesOf(before), placesOf(after)
	for _, o := range w.obstacles {
		hit := o.removals || before == nil && id.Kind == o.limited && len(w.ingress.all(id.Kind, id.Namespace)) >= o.most
		for at := range stands {
			hit = hit || at.addr == o.address || o.additions && !stood.anywhere(at.addr)
		}
		switch {
		case !hit || o.namespace != "" && o.namespace != id.Namespace || id.Kind == Leases:
		case o.hangs:
			return errHangs
		default:
			return forbidden(id, "admission webhook denied the request")
		}
	}
	return nil
}

// inTheWay is when the ingress cluster last had in the way what stops the writes that would end
// a difference.
func (w *world) inTheWay(key syncer.Key, d difference) time.Duration {
	inSlices, inEndpoints := w.stands(key)
	for _, o := range w.obstacles {
		stands := inSlices.anywhere(o.address) || inEndpoints.anywhere(o.address)
		if (o.namespace == "" || o.namespace == key.Namespace) && (o.removals || stands || d.law != Hard || w.replaced(key, d)) {
			return w.now
		}
	}
	return w.at[obstructed]
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
			same := of.addr == d.at.addr && of.uid != d.at.uid && (of.inEndpoints || d.kind == EndpointSlices)
			return same && of.ports == e.ports && (!e.ready || of.grade != unserved || of.ready)
		})
	})
}

// hangs reports whether requests to the ingress cluster hang, or did a short time ago.
func (w *world) hangs() bool {
	return w.lately(hung) || slices.ContainsFunc(w.obstacles, func(o obstacle) bool { return o.hangs })
}

// portsChange reports whether a slice that has endpoints goes over to other ports.
func portsChange(was, is *discoveryv1.EndpointSlice) bool {
	return len(was.Endpoints)+len(is.Endpoints) > 0 && !slices.EqualFunc(was.Ports, is.Ports, func(a, b discoveryv1.EndpointPort) bool {
		return *a.Port == *b.Port && *a.Name == *b.Name
	})
}
