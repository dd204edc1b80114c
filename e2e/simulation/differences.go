// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/syncer"
)

// difference is an endpoint of a replica that is published otherwise than it should be.
type difference struct {
	key  syncer.Key
	kind model.Kind
	at   place
	law  Law
	text string
}

// differences compares what is published of a replica with the truth. Where the truth is unsure
// who serves, only dead endpoints count.
func (w *world) differences(key syncer.Key) (found []difference) {
	if w.foreign(model.Services, key) || w.excludes(key) {
		return nil
	}
	wanted, best, unsure := map[place]offer{}, unserved*100, !w.agree(key)
	for _, e := range w.offers(key) {
		wanted[e.place] = e
		best = min(best, e.class())
		unsure = unsure || e.unsure
	}
	compare := func(kind model.Kind) {
		published := w.published(kind, key)
		differs := func(at place, law Law, text string) { found = append(found, difference{key, kind, at, law, text}) }
		acknowledged := published.some(func(at place, e entry) bool {
			of, offered := wanted[at]
			return e.ready && offered && of.class() == best
		})
		for at, e := range published {
			switch of, offered := wanted[at]; {
			case !offered && !w.mayStay(at):
				differs(at, Hard, "is published and not offered")
			case !offered, unsure:
			case e.ready && of.grade == unserved && !of.ready:
				differs(at, Hard, "is published ready and is not ready")
			case e.ready && of.grade < unserved && of.class() > best && acknowledged:
				differs(at, Demoted, "serves beside better endpoints")
			case e.ports != of.ports:
				differs(at, Fair, "is published with ports "+e.ports+" instead of "+of.ports)
			}
		}
		for at, of := range wanted {
			switch e, there := published[at]; {
			case unsure:
			case !there:
				differs(at, Fair, "is not published")
			case !e.ready && of.ready && (of.grade == unserved || of.class() == best):
				differs(at, Fair, "is not published ready")
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

// agree reports whether members have the same ports for a replica. Where they do not, the oldest
// Service decides, which the truth does not model.
func (w *world) agree(key syncer.Key) bool {
	var other *corev1.Service
	for _, c := range w.members {
		svc := w.serviceOf(c, key)
		if other != nil && svc != nil && !slices.EqualFunc(other.Spec.Ports, svc.Spec.Ports, func(a, b corev1.ServicePort) bool {
			return a.Name == b.Name && a.Port == b.Port && a.Protocol == b.Protocol
		}) {
			return false
		}
		other = cmp.Or(svc, other)
	}
	return true
}

// mayStay reports whether an endpoint that nobody offers may stay published, as an orphan of a
// member that is no longer configured.
func (w *world) mayStay(at place) bool {
	return !w.config.DropOrphans && w.owner(at) != "" && w.config.Members[w.owner(at)] == nil
}

// orphaned reports whether a replica may stay because of members that are no longer configured.
func (w *world) orphaned(key syncer.Key) bool {
	orphan := func(at place, _ entry) bool { return w.mayStay(at) }
	return w.published(model.Endpoints, key).some(orphan) ||
		slices.ContainsFunc(w.ingress.All(model.EndpointSlices, key.Namespace), func(o model.Object) bool {
			l := o.GetLabels()
			return ours(o) && l[syncer.LabelServiceName] == key.Name && !w.config.DropOrphans && w.config.Members[l[syncer.LabelSourceCluster]] == nil
		})
}

// excludes reports whether nothing may be written of a replica.
func (w *world) excludes(key syncer.Key) bool {
	ns := model.Of[*corev1.Namespace](w.ingress.Server, model.Namespaces.ID("", key.Namespace))
	return key.Namespace == w.config.Excluded || ns != nil && ns.DeletionTimestamp != nil
}

// foreign reports whether an object that somebody else owns is in the way.
func (w *world) foreign(kind model.Kind, key syncer.Key) bool {
	o := w.ingress.Find(kind.ID(key.Namespace, key.Name))
	return o != nil && !ours(o)
}

// classes reports whether some endpoints may be of a better class than others.
func (w *world) classes() bool {
	doubts := func(m *member.Config) bool { return m.Drain || m.StaleAfter > 0 || m.Options.StableFor > 0 }
	return w.config.Failover || slices.ContainsFunc(slices.Collect(maps.Values(w.config.Members)), doubts)
}

// obstacle is a rule by which a webhook of the ingress cluster refuses writes.
type obstacle struct {
	// namespace restricts it. It refuses objects with address; with additions those that add an
	// address; with removals every write; and creates of kind limited beyond most in the
	// namespace. hangs: the request hangs instead.
	namespace, address         string
	additions, removals, hangs bool
	limited                    model.Kind
	most                       int
}

// admit is the admission of the ingress cluster.
func (w *world) admit(id model.ID, before, after model.Object) error {
	was, is := placesOf(before), placesOf(after)
	for _, o := range w.obstacles {
		hit := o.removals || before == nil && id.Kind == o.limited && len(w.ingress.All(id.Kind, id.Namespace)) >= o.most ||
			is.some(func(at place, _ entry) bool { return at.addr == o.address || o.additions && !was.anywhere(at.addr) })
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

// inTheWay is when an obstacle last stopped the writes that would end a difference.
func (w *world) inTheWay(d difference) time.Duration {
	for _, o := range w.obstacles {
		published := w.published(model.EndpointSlices, d.key).anywhere(o.address) || w.published(model.Endpoints, d.key).anywhere(o.address)
		if (o.namespace == "" || o.namespace == d.key.Namespace) && (o.removals || published || d.law != Hard || w.replaced(d)) {
			return w.now
		}
	}
	return w.at[obstructed]
}

// replaced reports whether another endpoint of the same address is to replace one that is not
// offered, and serves if that one does. To write it is no removal.
func (w *world) replaced(d difference) bool {
	e := w.published(d.kind, d.key)[d.at]
	return slices.ContainsFunc(w.offers(d.key), func(of offer) bool {
		same := of.addr == d.at.addr && of.uid != d.at.uid && (of.inEndpoints || d.kind == model.EndpointSlices)
		return same && (!e.ready || of.grade != unserved || of.ready)
	})
}
