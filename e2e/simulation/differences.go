// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/syncer"
)

// differences are those of a replica between the truth and what stands.
func (w *world) differences(key syncer.Key) (out []difference) {
	if w.foreign(key) || w.excludes(key) {
		return nil
	}
	wanted := map[place]offer{}
	best, unsure := 1000, false
	sources := 0
	for _, c := range w.members {
		offers := w.offersOf(c, key)
		if svc := w.serviceOf(c, key); svc != nil {
			sources++
		}
		for _, e := range offers {
			wanted[place{e.member, e.addr, e.uid}] = e
			if e.grade < unserved {
				best = min(best, e.class())
			}
			unsure = unsure || e.unsure
		}
	}
	unsure = unsure || sources > 1 && !w.agree(key)
	inSlices, inEndpoints := w.stands(key)
	out = w.compare(out, EndpointSlices, inSlices, wanted, best, unsure)
	if w.config.OnlySlices || w.foreignEndpoints(key) {
		return out
	}
	together := map[place]offer{}
	for _, at := range sortedPlaces(wanted) {
		e := wanted[at]
		if !e.endpoints {
			continue
		}
		at.member = ""
		if other, two := together[at]; two && other.class() < e.class() {
			e = other
		}
		together[at] = e
	}
	return w.compare(out, Endpoints, inEndpoints, together, best, unsure)
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

// compare compares one view with what is wanted. Where it is unsure who serves only the dead
// are looked at.
func (w *world) compare(out []difference, kind Kind, stands view, wanted map[place]offer, best int, unsure bool) []difference {
	acknowledged := false
	for at, e := range stands {
		of, offered := wanted[at]
		acknowledged = acknowledged || e.ready && offered && of.grade < unserved && of.class() == best
	}
	for _, at := range sortedPlaces(stands) {
		e := stands[at]
		of, offered := wanted[at]
		switch {
		case !offered && w.mayStay(at):
		case !offered:
			out = append(out, difference{Hard, kind, at, "stands and is not offered"})
		case unsure:
		case e.ready && of.grade == unserved && !of.ready:
			out = append(out, difference{Hard, kind, at, "stands ready and is not"})
		case e.ready && of.grade < unserved && of.class() > best && acknowledged:
			out = append(out, difference{Demoted, kind, at, "serves beside those who are better"})
		case e.ports != of.ports:
			out = append(out, difference{Fair, kind, at, "stands with ports " + e.ports + " instead of " + of.ports})
		}
	}
	for _, at := range sortedPlaces(wanted) {
		of := wanted[at]
		e, there := stands[at]
		switch {
		case unsure || !there && !of.slices && kind == EndpointSlices:
		case !there:
			out = append(out, difference{Fair, kind, at, "does not stand"})
		case !e.ready && of.ready && (of.grade == unserved || of.class() == best):
			out = append(out, difference{Fair, kind, at, "does not stand ready"})
		}
	}
	return out
}

// mayStay reports whether an endpoint that nobody offers may stay: its member is not
// configured any more.
func (w *world) mayStay(at place) bool {
	if w.config.DropOrphans {
		return false
	}
	for _, c := range w.members {
		configured := w.config.member(c.name) != nil
		if at.member == c.name && !configured || at.member == "" && !configured && (at.uid == "" || w.truths[c.name].pods[at.uid] != nil) {
			return true
		}
	}
	return false
}
