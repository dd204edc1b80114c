// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"slices"
	"time"
)

// askBelieved asks for what the last list took that is known to lie.
func (s *State) askBelieved(now time.Time, kind Kind, q *inquiry, out *Effects) {
	for _, a := range s.believed[kind] {
		if _, has := s.has(a); s.absent[a.id] == nil && !has {
			s.absent[a.id], a.since = a, now
			s.address(a, a.addrs)
			s.ask(now, a, q, out)
		}
	}
	s.believed[kind] = nil
}

// believe notes what was taken from what stands as the last lists lack it.
func (s *State) believe(d doubt) {
	for _, id := range d.objects {
		a := &absence{lost: lost{id: id}, rv: 1} // it was never seen
		if id.Kind == Pods {
			a.uid, a.addrs = d.endpoint.endpoint.Target.UID, []netip.Addr{d.endpoint.endpoint.Addr}
		}
		if id.Kind <= Pods {
			s.believed[id.Kind] = append(s.believed[id.Kind], a)
		}
	}
}

// disbelieve takes an object that was seen to go from what lists took.
func (s *State) disbelieve(id object) {
	s.believed[id.Kind] = slices.DeleteFunc(s.believed[id.Kind], func(a *absence) bool { return a.id == id })
}

// withoutObject is an absence as it is on the books once its object was taken.
func (s *State) withoutObject(a *absence) *absence {
	rv, _ := s.has(a)
	return &absence{lost: lost{id: a.id, uid: a.uid, service: a.service, addrs: a.addrs}, rv: rv}
}

// asked reports whether an answer is on its way about an object that the last list lacked.
// It counts, though the object was taken meanwhile because others replace it, or somebody
// said so: one that is there comes back.
func (s *State) asked(a *absence) bool {
	_, has := s.has(a)
	return has && a.state == asking && !a.asked.Before(s.listedAt[a.id.Kind]) && s.inquiries[a.id.Kind] != nil
}

// await puts an absence back on the books whose object was taken, and of which asked was
// true before that.
func (s *State) await(now time.Time, a *absence) {
	s.absent[a.id], s.inquiries[a.id.Kind].waiting[a.id] = a, true
	a.since, a.state, a.asked, a.reported = now, asking, now, true
	s.address(a, a.addrs)
}
