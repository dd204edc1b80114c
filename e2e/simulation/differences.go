// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// difference is what stands of a replica otherwise than it should.
type difference struct {
	key  syncer.Key
	kind model.Kind
	at   place
	law  Law
	text string
}

// differences are those of a replica between the truth and what stands. Where it is unsure who serves
// only the dead are looked at.
func (w *world) differences(key syncer.Key) (found []difference) {
	if w.foreign(model.Services, key) || w.excludes(key) {
		return nil
	}
	wanted, best, unsure := map[place]offer{}, unserved*100, !w.agree(key)
	for _, e := range w.offers(key) {
		wanted[e.place] = e
		if e.grade < unserved {
			best = min(best, e.class())
		}
		unsure = unsure || e.unsure
	}
	compare := func(kind model.Kind) {
		stands, acknowledged := w.stands(kind, key), false
		for at, e := range stands {
			of, offered := wanted[at]
			acknowledged = acknowledged || e.ready && offered && of.class() == best
		}
		for at, e := range stands {
			of, offered := wanted[at]
			differs := func(law Law, text string) { found = append(found, difference{key, kind, at, law, text}) }
			switch {
			case !offered && !w.mayStay(at):
				differs(Hard, "stands and is not offered")
			case !offered, unsure:
			case e.ready && of.grade == unserved && !of.ready:
				differs(Hard, "stands ready and is not")
			case e.ready && of.grade < unserved && of.class() > best && acknowledged:
				differs(Demoted, "serves beside those who are better")
			case e.ports != of.ports:
				differs(Fair, "stands with ports "+e.ports+" instead of "+of.ports)
			}
		}
		for at, of := range wanted {
			e, there := stands[at]
			switch {
			case unsure:
			case !there:
				found = append(found, difference{key, kind, at, Fair, "does not stand"})
			case !e.ready && of.ready && (of.grade == unserved || of.class() == best):
				found = append(found, difference{key, kind, at, Fair, "does not stand ready"})
			}
		}
	}
	compare(model.EndpointSlices)
	if w.config.WriteEndpoints && !w.foreign(model.Endpoints, key) {
		maps.DeleteFunc(wanted, func(_ place, e offer) bool { return !e.inEndpoints })
		compare(model.Endpoints)
	}
	return found
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

// mayStay reports whether an endpoint that nobody offers may stay: its member is not
// configured any more.
func (w *world) mayStay(at place) bool {
	return !w.config.DropOrphans && w.owner(at) != "" && w.config.member(w.owner(at)) == nil
}

// orphaned reports whether what stands of a replica is kept for members that are not
// configured.
func (w *world) orphaned(key syncer.Key) bool {
	kept := func(at place, _ entry) bool { return w.mayStay(at) }
	return w.stands(model.Endpoints, key).some(kept) ||
		slices.ContainsFunc(w.ingress.All(model.EndpointSlices, key.Namespace), func(o model.Object) bool {
			l := o.GetLabels()
			return l[syncer.LabelServiceName] == key.Name && w.config.member(l[syncer.LabelSourceCluster]) == nil
		})
}

// excludes reports whether nothing is to be written of a replica.
func (w *world) excludes(key syncer.Key) bool {
	ns := model.Of[*corev1.Namespace](w.ingress.Server, model.Namespaces.ID("", key.Namespace))
	return key.Namespace == w.config.Excluded || ns != nil && ns.DeletionTimestamp != nil
}

// foreign reports whether an object of somebody else's stands in the way.
func (w *world) foreign(kind model.Kind, key syncer.Key) bool {
	o := w.ingress.Find(kind.ID(key.Namespace, key.Name))
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
	limited                    model.Kind
	most                       int
}

// admit is what stands before the ingress cluster's store.
func (w *world) admit(id model.ID, before, after model.Object) error {
	stood, stands := placesOf(before), placesOf(after)
	for _, o := range w.obstacles {
		hit := o.removals || before == nil && id.Kind == o.limited && len(w.ingress.All(id.Kind, id.Namespace)) >= o.most
		for at := range stands {
			hit = hit || at.addr == o.address || o.additions && !stood.anywhere(at.addr)
		}
		switch {
		case !hit || o.namespace != "" && o.namespace != id.Namespace || id.Kind == model.Leases:
		case o.hangs:
			return errHangs
		default:
			return model.Forbidden(id, "admission webhook denied the request")
		}
	}
	return nil
}

// inTheWay is when the ingress cluster last had in the way what stops the writes that would end
// a difference.
func (w *world) inTheWay(d difference) time.Duration {
	for _, o := range w.obstacles {
		stands := w.stands(model.EndpointSlices, d.key).anywhere(o.address) || w.stands(model.Endpoints, d.key).anywhere(o.address)
		if (o.namespace == "" || o.namespace == d.key.Namespace) && (o.removals || stands || d.law != Hard || w.replaced(d)) {
			return w.now
		}
	}
	return w.at[obstructed]
}

// replaced reports whether another endpoint is to take the place of one that is not offered, whatever
// its ports, and serves if that does: to write it is no removal.
func (w *world) replaced(d difference) bool {
	e := w.stands(d.kind, d.key)[d.at]
	return slices.ContainsFunc(w.offers(d.key), func(of offer) bool {
		same := of.addr == d.at.addr && of.uid != d.at.uid && (of.inEndpoints || d.kind == model.EndpointSlices)
		return same && (!e.ready || of.grade != unserved || of.ready)
	})
}

// hangs reports whether requests to the ingress cluster hang, or did a short time ago.
func (w *world) hangs() bool {
	return w.lately(hung) || slices.ContainsFunc(w.obstacles, func(o obstacle) bool { return o.hangs })
}
