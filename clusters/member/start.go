// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// area is what one stream of pods and one of Services cover together: a namespace, or all.
// Until it has stood, what stands of the member there is its share (T5).
type area struct {
	namespace string
	// rules are those that its pods were matched with.
	rules *Rules
	// stood is true once its lists are complete and what stands was held against them.
	stood bool
}

// areaOf returns the area of a namespace; nil: it is not followed.
func (s *State) areaOf(namespace string) *area {
	all := s.areas[""]
	if all == nil {
		return s.areas[namespace]
	}
	if s.config.Covers != nil && !s.config.Covers(namespace) {
		return nil
	}
	return all
}

// complete reports whether the lists of an area are, and pods are level with Services.
func (s *State) complete(a *area) bool {
	pods, services := s.stream(Pods, a), s.stream(Services, a)
	if !services.listed || !pods.level(services.at, s.now) {
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

// ready reports whether they will, once what stands was held against them.
func (s *State) ready(replica syncer.Key, a *area) bool {
	h := s.hand[replica]
	return (a.stood || s.complete(a)) && (h == nil || h.endpoints && h.slices)
}

// standing reports whether what stands of the member in a replica is its share: the start is
// not over and the Service was not seen to go, or the Service is asked for and in no table.
func (s *State) standing(replica syncer.Key, a *area) bool {
	if _, held := s.tables.ServiceRevision(replica); held {
		return !s.known(replica, a)
	}
	if _, waits := s.services.waiting[replica]; waits || a.stood {
		return waits || s.asking.of(Services, replica) != nil
	}
	return !s.services.graves.has(replica)
}

// Listed reports whether every share is that of the tables.
func (s *State) Listed() bool {
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

// wantStanding asks for what stands once lists are complete that were not before.
func (s *State) wantStanding(o *step) {
	if s.wanted = s.wanted || o.WantStanding; s.wanted {
		return
	}
	for _, a := range s.areas {
		o.WantStanding = o.WantStanding || !a.stood && s.complete(a)
	}
	for key, h := range s.hand {
		a := s.areaOf(key.Namespace)
		o.WantStanding = o.WantStanding || !h.stood && s.ready(key, a)
	}
	s.wanted = o.WantStanding
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
		s.compare(func(key syncer.Key) bool { return s.areaOf(key.Namespace) == a },
			&Cause{Kind: "Config", Event: EventConfigured, Arrived: s.now}, o)
	}
	s.watch(s.pods.listed(s.streams[e.Scope], e, rematch, o), nil, o)
	o.WantStanding = o.WantStanding || !a.stood // it may be otherwise than pods that were read say
}

// stood holds what stands of the member against its tables: where lists are complete, what
// stands and is in no table is asked for, and the start is over.
func (s *State) stood(all []Standing, o *step) {
	s.wanted, o.Bulk = false, true
	c := &Cause{Kind: "Cluster", Event: EventListed, Arrived: s.now}
	for i := range all {
		replica := all[i].Replica
		a := s.areaOf(replica.Namespace)
		over := a != nil && !s.known(replica, a) && s.ready(replica, a)
		if over {
			s.ask(&all[i], o)
		}
		if over || s.regraded {
			o.add(replica, syncer.Addition, c)
		}
	}
	s.regraded = false
	for _, a := range s.areas {
		if !a.stood && s.complete(a) {
			a.stood = true
			s.compare(func(key syncer.Key) bool { return s.areaOf(key.Namespace) == a }, c, o)
		}
	}
	for key, h := range s.hand {
		if a := s.areaOf(key.Namespace); a.stood && !h.stood && s.ready(key, a) {
			h.stood = true
			o.add(key, syncer.Addition, c)
		}
	}
	s.reindex(slices.DeleteFunc(all, func(st Standing) bool {
		a := s.areaOf(st.Replica.Namespace)
		return a == nil || !s.standing(st.Replica, a) && !s.handOpen(st.Replica)
	}), o)
	for key := range s.stands.pods { // what was read since it was written may say otherwise
		o.touch(s.stands.pods[key], c)
	}
}

// ask asks for what stands in a replica and is in no table.
func (s *State) ask(st *Standing, o *step) {
	svc, _, known := s.tables.Service(st.Replica)
	if !known {
		s.asking.begin(Question{Kind: Services, Key: st.Replica}, o)
	}
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		if known && svc.Selector == nil {
			s.askHand(st.Replica, e, o)
		} else if podTarget(e) {
			s.askPod(st.Replica, e, o)
		}
	}
}

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
		q.replicas, q.addrs = append(q.replicas, replica), append(q.addrs, e.Addr)
	}
}

// settle takes in news that waited for pods, if their stream is still catching up.
func (s *State) settle(scope Scope, o *step) {
	if st := s.streams[scope]; scope.Kind == Pods && st != nil && st.settling(s.now) {
		s.release(o)
	}
}

// release takes in news that waited for pods.
func (s *State) release(o *step) {
	for _, key := range slices.SortedFunc(maps.Keys(s.services.waiting), syncer.Key.Compare) {
		if news := s.services.waiting[key]; !s.waits(key, news.Revision) {
			s.services.take(news.Versioned, news.from, o)
		}
	}
}

// waits reports whether news of a Service waits: pods are not read up to it.
func (s *State) waits(key syncer.Key, revision uint64) bool {
	a := s.areaOf(key.Namespace)
	return a == nil || !s.stream(Pods, a).level(revision, s.now)
}

// restart forgets areas and has them read anew (T5).
func (s *State) restart(those func(*area) bool, o *step) {
	for _, a := range s.areas {
		if !those(a) {
			continue
		}
		s.forget(func(key syncer.Key) bool { return s.areaOf(key.Namespace) == a })
		for scope, st := range s.streams {
			if a.namespace == "" || scope.Namespace == a.namespace {
				*st = stream{}
				o.Restart = append(o.Restart, scope)
			}
		}
		*a = area{namespace: a.namespace, rules: s.config.Rules}
		s.stands = newStands()
		s.handDue, s.starting, o.WantStanding = true, true, true
	}
}

// forget takes out what is covered as if it had never been read.
func (s *State) forget(covers func(syncer.Key) bool) {
	maps.DeleteFunc(s.asking.open, func(of subject, _ *question) bool { return covers(of.key) })
	maps.DeleteFunc(s.hand, func(key syncer.Key, _ *hand) bool { return covers(key) })
	for _, k := range s.kinds() {
		k.forget(covers)
	}
}
