// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// mostNamed is for how many Services without a selector Endpoints are followed by name: that
// brings nothing but what is wanted and costs the server a watch each. One stream of all
// brings what controllers derive as well: that cannot be left out by label, for the label by
// which newer ones mark it stays on an object that is written by hand from then on.
const mostNamed = 64

// hand is a Service without a selector. Its start is over when both streams have been listed
// since it became one, and what stands was held against them.
type hand struct {
	endpoints, slices *stream
	stood             bool
}

// followHand makes the streams those that Services without a selector need. For those that were
// none before, streams that go on are listed again: what these showed was not kept.
func (s *State) followHand(o *step) {
	former := s.hand
	s.hand = map[syncer.Key]*hand{}
	for key := range s.tables.HandWritten() {
		if s.hand[key] = former[key]; s.hand[key] == nil {
			s.hand[key], s.starting, o.WantStanding = &hand{}, true, true // pods may stand that it selected
		}
	}
	wanted := map[Scope]bool{}
	follow := func(scope Scope, fresh bool) *stream {
		st := s.streams[scope]
		if st == nil {
			st, o.Follow = &stream{}, true
			s.streams[scope] = st
		} else if fresh && st.listed {
			st.listed, o.Relist = false, append(o.Relist, scope)
		}
		wanted[scope] = true
		return st
	}
	for key, h := range s.hand {
		area := s.areaOf(key.Namespace).namespace
		scope := Scope{Endpoints, key.Namespace, key.Name}
		if len(s.hand) > mostNamed {
			scope = Scope{Endpoints, area, ""}
		}
		fresh := h.slices == nil
		h.endpoints, h.slices = follow(scope, fresh), follow(Scope{EndpointSlices, area, ""}, fresh)
	}
	maps.DeleteFunc(s.streams, func(scope Scope, _ *stream) bool {
		left := scope.Kind >= Endpoints && !wanted[scope]
		o.Follow = o.Follow || left
		return left
	})
}

// askHand asks for the objects of a Service without a selector if they do not give an
// endpoint that stands.
func (s *State) askHand(service syncer.Key, e *syncer.Endpoint, o *step) {
	given, _ := s.tables.Contribution(service, s.Clock())
	if slices.ContainsFunc(given.Endpoints, func(g syncer.Endpoint) bool { return g.Addr == e.Addr && g.Target == e.Target }) {
		return
	}
	if _, _, known := s.tables.Endpoints(service); !known {
		s.asking.begin(Question{Kind: Endpoints, Key: service}, o)
	}
	s.asking.begin(Question{Kind: SlicesOf, Key: service}, o)
}

// handOpen reports whether objects of a Service without a selector are asked for.
func (s *State) handOpen(service syncer.Key) bool {
	return s.asking.of(Endpoints, service) != nil || s.asking.of(SlicesOf, service) != nil
}

// answeredSlices takes in a list of all slices of a Service.
func (s *State) answeredSlices(a *Answer, o *step) {
	q := s.asking.close(a.Kind, a.Key)
	list, _ := a.Object.([]store.Versioned[store.HandSlice])
	for _, v := range list {
		if _, known, _ := s.tables.Slice(v.Object.Key); known <= v.Revision {
			s.slices.take(v, origin{event: "listed", arrived: s.now}, o)
		}
	}
	o.touch(q.replicas, &Cause{Kind: a.Kind.String(), Key: a.Key, Event: "missing", Arrived: s.now})
}

// serviceChanged notes what a Service that came, changed or went asks of hand-written
// endpoints, and that one that went does not stand any more.
func (s *State) serviceChanged(key syncer.Key, before, after *syncer.Service, c *Cause, o *step) {
	byHand := func(svc *syncer.Service) bool { return svc != nil && svc.Selector == nil }
	s.handDue = s.handDue || byHand(before) || byHand(after)
	if after == nil {
		o.add(key, syncer.Removal, c)
	}
}
