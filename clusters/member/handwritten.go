// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// hand is a Service whose endpoints are written by hand. Its start is over when both kinds
// have been listed since it became one.
type hand struct {
	endpoints, slices bool
	stood, wants      bool
}

func (h *hand) listed() bool { return h.endpoints && h.slices }

// A stream of one object brings nothing but what is wanted and costs the server a watch; one
// of a namespace brings the Endpoints that controllers derive as well. These cannot be left
// out by label: the label by which newer controllers mark what they derive stays on an
// object that is written by hand from then on.
const (
	streamsPerNamespace = 8
	streamsAtMost       = 64
)

// wantHand adds the streams that Services without a selector need. Those that were none
// before have the streams that go on listed again: what these showed was not kept.
func (s *State) wantHand(wanted map[Scope]bool, o *step) {
	var keys, fresh []syncer.Key
	is := map[syncer.Key]bool{}
	for key := range s.tables.HandWritten() {
		a := s.areaOf(key.Namespace)
		if a == nil {
			continue
		}
		is[key] = true
		keys = append(keys, key)
		if s.hand[key] == nil {
			s.hand[key], s.starting = &hand{}, true
			o.WantStanding = true // pods may stand that its selector chose until now
			fresh = append(fresh, key)
		}
		wanted[Scope{Kind: EndpointSlices, Namespace: a.namespace}] = true
	}
	maps.DeleteFunc(s.hand, func(key syncer.Key, _ *hand) bool { return !is[key] })
	slices.SortFunc(keys, syncer.Key.Compare)
	for _, scope := range s.endpointsScopes(keys) {
		wanted[scope] = true
	}
	for scope := range wanted {
		st := s.kind(scope.Kind).stream(scope)
		if scope.Kind >= Endpoints && st != nil && st.listed && slices.ContainsFunc(fresh, scope.covers) {
			o.Relist = append(o.Relist, scope)
		}
	}
}

// endpointsScopes chooses the streams of Endpoints for Services, which are sorted.
func (s *State) endpointsScopes(keys []syncer.Key) (scopes []Scope) {
	for rest := keys; len(rest) > 0; {
		namespace := rest[0].Namespace
		n := slices.IndexFunc(rest, func(k syncer.Key) bool { return k.Namespace != namespace })
		if n < 0 {
			n = len(rest)
		}
		for _, key := range rest[:n] {
			scope := Scope{Kind: Endpoints, Namespace: namespace, Name: key.Name}
			if n > streamsPerNamespace {
				scope.Name = ""
			}
			scopes = append(scopes, scope)
		}
		rest = rest[n:]
	}
	if scopes = slices.Compact(scopes); len(scopes) > streamsAtMost {
		for i := range scopes {
			scopes[i] = Scope{Kind: Endpoints, Namespace: s.areaOf(scopes[i].Namespace).namespace}
		}
	}
	return scopes
}

// listedHand notes that a scope has been listed.
func (s *State) listedHand(scope Scope) {
	for key, h := range s.hand {
		if scope.covers(key) {
			h.endpoints = h.endpoints || scope.Kind == Endpoints
			h.slices = h.slices || scope.Kind == EndpointSlices
		}
	}
}

// askHand asks for the objects of a Service without a selector if they do not give an
// endpoint that stands.
func (s *State) askHand(service syncer.Key, e *syncer.Endpoint, o *step) {
	given, _ := s.tables.Contribution(service, s.clock())
	if slices.ContainsFunc(given.Endpoints, func(g syncer.Endpoint) bool { return g.Addr == e.Addr && g.Target == e.Target }) {
		return
	}
	if _, _, known := s.tables.Endpoints(service); !known {
		s.asking.begin(Question{Kind: Endpoints, Key: service}, o)
	}
	s.asking.begin(Question{Kind: EndpointSlices, Key: service, OfService: true}, o)
}

// handOpen reports whether objects of a Service without a selector are asked for that stand
// and are in no table.
func (s *State) handOpen(service syncer.Key) bool {
	return s.asking.of(Endpoints, service) != nil ||
		s.asking.open[subject{EndpointSlices, service, true}] != nil
}

// answeredHand takes in a list of all slices of a Service.
func (s *State) answeredHand(a *Answer, q *question, o *step) {
	s.asking.close(q.subject())
	from := origin{event: EventListed, arrived: s.now}
	list, _ := a.Object.([]store.Versioned[store.HandSlice])
	for _, v := range list {
		if st := s.slices.over(v.Object.Key); st != nil && s.slices.known(v.Object.Key) <= v.Revision {
			s.slices.take(st, v, from, o)
		}
	}
	c := &Cause{Kind: EndpointSlices.String(), Key: a.Key, Event: EventMissing, Arrived: s.now}
	o.touch(q.replicas, c)
}

// serviceChanged notes what a Service that came, changed or went asks of hand-written
// endpoints and of a start.
func (s *State) serviceChanged(key syncer.Key, before, after *syncer.Service, c *Cause, o *step) {
	if before != nil && before.Selector == nil || after != nil && after.Selector == nil {
		s.handDue = true
	}
	a := s.areaOf(key.Namespace)
	switch {
	case a == nil || a.stood:
	case after != nil:
		delete(a.deleted, key)
	default:
		if a.deleted == nil {
			a.deleted = map[syncer.Key]bool{}
		}
		a.deleted[key] = true
		o.add(key, syncer.Removal, c)
	}
}
