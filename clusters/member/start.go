// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// podKind is the kind of the objects that pods' endpoints name.
const podKind = "Pod"

// area is what one stream of pods and one of Services cover together: a namespace, or all.
// Until it has stood, what stands of the member there is its share (T5).
type area struct {
	namespace string
	// rules are those that its pods were matched with.
	rules *Rules
	// stood is true once its lists are complete and what stands was held against them.
	stood bool
	// wants is true while what stands is asked for.
	wants bool
	// deleted are Services that were seen to go before.
	deleted map[syncer.Key]bool
}

// areaOf returns the area of a namespace; nil: it is not followed.
func (s *State) areaOf(namespace string) *area {
	if a := s.areas[""]; a != nil && s.covers(namespace) {
		return a
	}
	return s.areas[namespace]
}

// covers reports whether objects of a namespace are taken in.
func (s *State) covers(namespace string) bool {
	if s.areas[""] == nil {
		return s.areas[namespace] != nil
	}
	return s.config.Covers == nil || s.config.Covers(namespace)
}

// complete reports whether the lists of an area are, and pods are level with Services.
func (s *State) complete(a *area) bool {
	pods, services := s.stream(Pods, a), s.stream(Services, a)
	if !pods.level(services.at, s.now) || !services.listed {
		return false
	}
	for key := range s.services.waiting {
		if s.areaOf(key.Namespace) == a {
			return false
		}
	}
	return true
}

// known reports whether the tables say what the member gives to a replica.
func (s *State) known(replica syncer.Key, a *area) bool {
	h := s.hand[replica]
	return a.stood && (h == nil || h.stood)
}

// listed reports whether all of the member has been listed.
func (s *State) listed() bool {
	for _, a := range s.areas {
		if !a.stood {
			return false
		}
	}
	for _, h := range s.hand {
		if !h.stood {
			return false
		}
	}
	return true
}

// Listed reports whether every share is that of the tables.
func (s *State) Listed() bool { return s.listed() }

// wantStanding reports whether what stands is to be held against lists that are complete
// now and were not before.
func (s *State) wantStanding() (want bool) {
	for _, a := range s.areas {
		if !a.stood && !a.wants && s.complete(a) {
			a.wants, want = true, true
		}
	}
	for key, h := range s.hand {
		if a := s.areaOf(key.Namespace); a != nil && a.stood && h.listed() && !h.stood && !h.wants {
			h.wants, want = true, true
		}
	}
	return want
}

// listedPods takes in a list of pods. From then on their rules are those that it was matched
// with (T7).
func (s *State) listedPods(e *Listed[syncer.Pod], o *step) {
	a := s.areas[e.Scope.Namespace]
	if a == nil {
		return
	}
	rematch := a.rules != e.Rules
	if a.rules = e.Rules; rematch {
		s.tables.Configure(s.storeOptions())
	}
	s.watch(s.pods.listed(e, rematch, o), nil, o)
	if rematch {
		s.compareArea(a, &Cause{Kind: "Config", Event: EventConfigured, Arrived: s.now}, o)
	}
	if !a.stood { // what stands of pods that were read may not be what they say
		a.wants, o.WantStanding = s.complete(a), true
	}
}

// compareArea has all replicas of an area compared.
func (s *State) compareArea(a *area, c *Cause, o *step) {
	o.Bulk = true
	for key := range s.tables.Replicas() {
		if s.areaOf(key.Namespace) == a {
			o.add(key, syncer.Addition, c)
		}
	}
}

// stood holds what stands of the member against its tables: where lists are complete, what
// stands and is in no table is asked for, and the start is over.
func (s *State) stood(all []Standing, o *step) {
	o.Bulk = true
	c := &Cause{Kind: "Cluster", Event: EventListed, Arrived: s.now}
	for i := range all {
		replica := all[i].Replica
		a, h := s.areaOf(replica.Namespace), s.hand[replica]
		if a != nil && !s.known(replica, a) && (a.stood || s.complete(a)) && (h == nil || h.stood || h.listed()) {
			s.ask(&all[i], o)
			o.add(replica, syncer.Addition, c)
		}
		if s.regraded {
			o.add(replica, syncer.Addition, c)
		}
	}
	s.regraded = false
	s.endStarts(c, o)
	former := s.stands.shown
	s.stands = newStands()
	all = slices.DeleteFunc(all, func(st Standing) bool {
		a := s.areaOf(st.Replica.Namespace)
		return a == nil || !s.standing(st.Replica, a) && !s.handOpen(st.Replica)
	})
	for i := range all {
		s.stands.index(&all[i])
	}
	s.watch(slices.Collect(maps.Values(s.asking.open)), former, o)
	for i := range all {
		if s.contradicted(&all[i]) {
			o.add(all[i].Replica, syncer.Removal, c)
		}
	}
}

// endStarts ends the start of what is complete.
func (s *State) endStarts(c *Cause, o *step) {
	for _, a := range s.areas {
		if !a.stood && s.complete(a) {
			a.stood, a.deleted = true, nil
			s.compareArea(a, c, o)
		}
		a.wants = false
	}
	for key, h := range s.hand {
		if a := s.areaOf(key.Namespace); a != nil && a.stood && h.listed() && !h.stood {
			h.stood = true
			o.add(key, syncer.Addition, c)
		}
		h.wants = false
	}
}

// ask asks for what stands in a replica and is in no table.
func (s *State) ask(st *Standing, o *step) {
	key := st.Replica
	svc, _, known := s.tables.Service(key)
	if !known {
		s.asking.begin(Question{Kind: Services, Key: key}, o)
	}
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		switch {
		case known && svc.Selector == nil:
			s.askHand(key, e, o)
		case podTarget(e):
			s.askPod(key, e, o)
		}
	}
}

// podTarget reports whether an endpoint is one of a pod that can be asked for.
func podTarget(e *syncer.Endpoint) bool { return e.Target.Kind == podKind && e.Target.UID != "" }

// askPod asks for the pod of an endpoint that stands, if it is in no table. It takes over
// that a pod was in doubt, which is all that is remembered of a pod (T6).
func (s *State) askPod(replica syncer.Key, e *syncer.Endpoint, o *step) {
	if pod, revision, known := s.tables.Pod(e.Target.Key); known {
		if pod.UID == e.Target.UID && e.Grade == syncer.Reserve && !pod.WasReady {
			pod.WasReady = true
			s.tables.SetPod(store.Versioned[syncer.Pod]{Object: *pod, Revision: revision})
		}
		return
	}
	if s.dead(e) || e.Grade == syncer.NotReady && s.asking.of(Pods, e.Target.Key) == nil {
		return
	}
	q := s.asking.begin(Question{Kind: Pods, Key: e.Target.Key, UID: e.Target.UID}, o)
	if q.UID == e.Target.UID {
		q.replicas = append(q.replicas, replica)
		q.addrs = append(q.addrs, e.Addr)
	}
}

// contradicted reports whether anything that was read says otherwise than what stands.
func (s *State) contradicted(st *Standing) bool {
	return slices.ContainsFunc(st.Endpoints, func(e syncer.Endpoint) bool {
		if s.handOpen(st.Replica) {
			return s.dead(&e)
		}
		as, ok := s.keepStanding(st.Replica, &e)
		return !ok || as.Grade != e.Grade || !as.Equal(&e)
	})
}

// settle takes in news that waited for pods, if their stream is still catching up.
func (s *State) settle(scope Scope, o *step) {
	if st := s.kind(scope.Kind).stream(scope); scope.Kind == Pods && st != nil && st.resumed.Add(settle).After(s.now) {
		s.release(o)
	}
}

// release takes in news that waited for pods.
func (s *State) release(o *step) {
	if len(s.services.waiting) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.services.waiting), syncer.Key.Compare) {
		news := s.services.waiting[key]
		if st := s.services.over(key); st != nil && !s.waits(key, news.Revision) {
			s.services.take(st, news.Versioned, news.from, o)
		}
	}
}

// waits reports whether news of a Service waits: pods are not read up to it.
func (s *State) waits(key syncer.Key, revision uint64) bool {
	a := s.areaOf(key.Namespace)
	return a == nil || !s.stream(Pods, a).level(revision, s.now)
}

// leading starts anew what is not followed when this process begins to write.
func (s *State) leading(o *step) {
	for _, a := range s.areas {
		if s.stream(Pods, a).phase != Following || s.stream(Services, a).phase != Following {
			s.restart(a, o)
		}
	}
}

// anew starts all areas anew.
func (s *State) anew(o *step) {
	for _, a := range s.areas {
		s.restart(a, o)
	}
}

// restart forgets an area and has it read anew (T5).
func (s *State) restart(a *area, o *step) {
	covers := func(key syncer.Key) bool { return s.areaOf(key.Namespace) == a }
	s.asking.drop(covers)
	s.eachKind(func(k anyKind) {
		k.forget(covers)
		k.doubt(covers)
		for _, scope := range k.scopes() {
			if a.namespace == "" || scope.Namespace == a.namespace {
				*k.stream(scope) = stream{}
				o.Restart = append(o.Restart, scope)
			}
		}
	})
	maps.DeleteFunc(s.hand, func(key syncer.Key, _ *hand) bool { return covers(key) })
	*a = area{namespace: a.namespace, rules: s.config.Rules}
	s.stands = newStands()
	s.handDue, s.starting, o.WantStanding = true, true, true
}
