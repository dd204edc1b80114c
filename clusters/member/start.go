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
	rules     *Rules // that its pods were matched with
	// list and news are what streams have shown of Services and waits for pods.
	list *Listed[syncer.Service]
	news map[syncer.Key]*Seen[syncer.Service]
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
	services := s.stream(Services, a)
	return services.listed && a.list == nil && len(a.news) == 0 && s.level(a, services.at)
}

// known reports whether the tables say what the member gives to a replica.
func (s *State) known(replica syncer.Key, a *area) bool {
	h := s.hand[replica]
	return a.stood && (h == nil || h.stood)
}

// ready reports whether they will, once what stands was held against them.
func (s *State) ready(replica syncer.Key, a *area) bool {
	h := s.hand[replica]
	return (a.stood || s.complete(a)) && (h == nil || h.endpoints.listed && h.slices.listed)
}

// standing reports whether what stands in a replica is the share: the start is not over and the
// Service was not seen to go, or it is asked for and in no table.
func (s *State) standing(replica syncer.Key, a *area) bool {
	if _, held := s.tables.ServiceRevision(replica); held {
		return !s.known(replica, a)
	}
	if a.news[replica] != nil || a.stood {
		return a.news[replica] != nil || s.asking.of(Services, replica) != nil
	}
	return !s.graves.has(subject{Services, replica})
}

// starts reports whether all starts are over, and whether one could be but for what stands.
func (s *State) starts() (over, due bool) {
	over = true
	for _, a := range s.areas {
		over, due = over && a.stood, due || !a.stood && s.complete(a)
	}
	for key, h := range s.hand {
		over, due = over && h.stood, due || !h.stood && s.ready(key, s.areaOf(key.Namespace))
	}
	return over, due
}

// Listed reports whether every share is that of the tables.
func (s *State) Listed() bool {
	over, _ := s.starts()
	return over
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
		s.compare(a, &Cause{Kind: "Config", Event: "configured", Arrived: s.now}, o)
	}
	st := s.streams[e.Scope]
	if s.pods.listed(st, e, rematch, o); len(a.news) > 0 { // what came while it was read is yet to be shown
		st.resumed = s.now
		s.wakeAt(s.now.Add(settling))
	}
	s.watch(nil, o)
	o.WantStanding = o.WantStanding || !a.stood // it may be otherwise than pods that were read say
}

// stood holds what stands of the member against its tables: where lists are complete, what
// stands and is in no table is asked for, and the start is over.
func (s *State) stood(all []Standing, o *step) {
	s.wanted, o.Bulk = false, true
	c := &Cause{Kind: "Cluster", Event: "listed", Arrived: s.now}
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
			s.compare(a, c, o)
		}
	}
	for key, h := range s.hand {
		if a := s.areaOf(key.Namespace); a.stood && !h.stood && s.ready(key, a) {
			h.stood = true
			o.add(key, syncer.Addition, c)
		}
	}
	shown := s.stands.shown
	s.stands = newStands()
	for i := range all {
		a := s.areaOf(all[i].Replica.Namespace)
		if a != nil && (s.standing(all[i].Replica, a) || s.handOpen(all[i].Replica)) {
			s.stands.index(&all[i])
		}
	}
	s.watch(shown, o)
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

// level reports whether the pods of an area have been read up to a revision. Until then news of
// a Service waits, deletions aside (T5): a selector may choose pods that nobody has seen.
func (s *State) level(a *area, revision uint64) bool {
	return a != nil && s.stream(Pods, a).level(revision, s.now)
}

// seenService takes in a Service that a stream shows, or has it wait.
func (s *State) seenService(e *Seen[syncer.Service], o *step) {
	if a := s.areas[e.Scope.Namespace]; a != nil {
		a.news[e.Object.Key] = e
		if a.list == nil && s.level(a, e.Revision) {
			delete(a.news, e.Object.Key)
			s.services.seen(s.stream(Services, a), e, o)
		}
	}
}

// listedServices takes in a list of Services, or has it wait. What waited is in it.
func (s *State) listedServices(e *Listed[syncer.Service], o *step) {
	if a := s.areas[e.Scope.Namespace]; a != nil {
		a.list = e
		clear(a.news)
		s.release(a, o)
	}
}

// release takes in what waited for pods and need not any more.
func (s *State) release(a *area, o *step) {
	if a == nil || a.list == nil && len(a.news) == 0 {
		return
	}
	st := s.stream(Services, a)
	if a.list != nil && s.level(a, a.list.Revision) {
		list := a.list
		a.list = nil
		s.services.listed(st, list, false, o)
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.news), syncer.Key.Compare) {
		s.seenService(a.news[key], o)
	}
}

// unwait forgets what waits of a Service that is gone.
func (s *State) unwait(e *Gone) {
	a := s.areas[e.Scope.Namespace]
	if a == nil || e.Scope.Kind != Services {
		return
	}
	if news := a.news[e.Key]; news != nil && news.Revision < e.Revision {
		delete(a.news, e.Key)
	}
	if a.list != nil {
		a.list.Items = slices.DeleteFunc(a.list.Items, func(v store.Versioned[syncer.Service]) bool { return v.Object.UID == e.UID })
	}
}
