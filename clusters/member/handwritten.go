// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// mostNamed is for how many Services without a selector Endpoints are followed by name: that
// brings nothing but what is wanted and costs the server a watch each. One stream of all
// brings what controllers derive as well: that cannot be left out by label, for the label by
// which newer ones mark it stays on an object that is written by hand from then on.
const mostNamed = 64

// serviceChanged has the replica of a Service compared, and asks for the endpoints of one that has
// come to be written by hand: streams may have shown them before anybody needed them. Pods may
// stand that it selected.
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
	s.asking.begin(SlicesOf, key, "", o)
	o.WantStanding = true
}

// handUnread reports whether it is not known yet what is written for a Service by hand.
func (s *State) handUnread(service syncer.Key) bool {
	_, _, known := s.tables.Endpoints(service)
	return s.asking.of(SlicesOf, service) != nil || !known && s.asking.of(Endpoints, service) != nil
}

// followHand makes the streams those that Services without a selector need.
func (s *State) followHand(o *step) {
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
			s.streams[scope], o.Follow = &stream{}, true
		}
	}
	maps.DeleteFunc(s.streams, func(scope Scope, _ *stream) bool {
		left := scope.Kind >= Endpoints && !wanted[scope]
		o.Follow = o.Follow || left
		return left
	})
}

// answeredSlices takes in a list of all slices of a Service, unless their stream has shown more.
func (s *State) answeredSlices(q *question, a *Answer, o *step) {
	list, _ := a.Object.(SliceList)
	if st := s.streams[s.scope(EndpointSlices, a.Key.Namespace)]; st != nil && st.at > list.Revision {
		q.again(o)
		return
	}
	s.asking.close(a.Kind, a.Key)
	for _, v := range list.Items {
		if _, known, _ := s.tables.Slice(v.Object.Key); known <= v.Revision {
			s.slices.take(v, Cause{Event: "listed", Arrived: s.now}, o)
		}
	}
	o.add(a.Key, syncer.Removal, &Cause{Kind: a.Kind.String(), Key: a.Key, Event: "listed", Arrived: s.now})
}

// SliceList are all slices of a Service at a revision: the Object of an Answer about SlicesOf.
type SliceList struct {
	Items    []store.Versioned[store.HandSlice]
	Revision uint64
}
