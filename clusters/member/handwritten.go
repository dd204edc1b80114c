// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"

	"tributary.dev/tributary/syncer"
)

// mostNamed is for how many Services without a selector Endpoints are followed by name: that
// brings only what is wanted, and costs the server a watch each. One stream of all also brings
// what controllers derive. That cannot be excluded by label, because the label by which newer
// controllers mark it stays on an object that is later written by hand.
const mostNamed = 64

// serviceChanged has the replica of a Service compared. It asks for the Endpoints if the endpoints are
// hand-written from now on: their stream may have shown them before they were needed. Pods that the
// Service selected may still be published.
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
	s.hand[key] = byHand
	if !byHand {
		delete(s.hand, key)
		s.asking.close(Endpoints, key)
		return
	}
	s.asking.begin(Endpoints, key, "", o)
	o.WantPublished = true
}

// handUnread reports whether the hand-written endpoints of a Service are not known yet.
func (s *State) handUnread(service syncer.Key) bool {
	_, _, known := s.tables.Endpoints(service)
	written := s.streams[s.scope(EndpointSlices, service.Namespace)]
	return written == nil || !written.listed || !known && s.asking.of(Endpoints, service) != nil
}

// readByHand has the replicas compared whose hand-written slices were listed.
func (s *State) readByHand(listed Scope, o *step) {
	c := &Cause{Kind: EndpointSlices.String(), Event: "listed", Arrived: s.now}
	for key := range s.hand {
		if listed.covers(key) {
			o.add(key, syncer.Removal, c)
		}
	}
}

// followHand sets the streams that Services without a selector need. That of slices is never dropped:
// it has few, and has shown those of the Service that needs them next.
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
