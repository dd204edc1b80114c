// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"

	"tributary.dev/tributary/syncer"
)

// mostNamed is for how many Services without a selector Endpoints are followed by name: that
// brings nothing but what is wanted and costs the server a watch each. One stream of all
// brings what controllers derive as well: that cannot be left out by label, for the label by
// which newer ones mark it stays on an object that is written by hand from then on.
const mostNamed = 64

// serviceChanged has the replica of a Service compared, and asks for the Endpoints of one that has
// come to be written by hand: their stream may have shown them before anybody needed them. Pods
// may stand that it selected.
func (s *State) serviceChanged(key syncer.Key, after *syncer.Service, c *Cause, o *step) {
	effect := syncer.Addition
	if after == nil {
		effect = syncer.Removal
		delete(s.news, key)
	}
	o.add(key, effect, c)
	byHand := s.tables.ByHand(key)
	if byHand == s.hand[key] {
		return
	}
	o.byHand = true
	if s.hand[key] = byHand; !byHand {
		delete(s.hand, key)
		return
	}
	s.asking.begin(Endpoints, key, "", o)
	o.WantPublished = true
}

// handUnread reports whether it is not known yet what is written for a Service by hand.
func (s *State) handUnread(service syncer.Key) bool {
	_, _, known := s.tables.Endpoints(service)
	written := s.streams[s.scope(EndpointSlices, service.Namespace)]
	return written == nil || !written.listed || !known && s.asking.of(Endpoints, service) != nil
}

// readByHand has the replicas compared of which all slices that are written by hand were listed.
func (s *State) readByHand(listed Scope, o *step) {
	c := &Cause{Kind: EndpointSlices.String(), Event: "listed", Arrived: s.now}
	for key := range s.hand {
		if listed.covers(key) {
			o.add(key, syncer.Removal, c)
		}
	}
}

// followHand makes the streams those that Services without a selector need. That of slices, which
// brings few, stays: it has shown those of the Service that needs them next.
func (s *State) followHand() {
	wanted := map[Scope]bool{}
	for key := range s.hand {
		named := Scope{Endpoints, key.Namespace, key.Name}
		if len(s.hand) > mostNamed {
			named = s.scope(Endpoints, key.Namespace)
		}
		wanted[named], wanted[s.scope(EndpointSlices, key.Namespace)] = true, true
	}
	for scope := range wanted {
		if s.streams[scope] == nil {
			s.streams[scope] = &stream{}
		}
	}
	maps.DeleteFunc(s.streams, func(scope Scope, _ *stream) bool { return scope.Kind == Endpoints && !wanted[scope] })
}
