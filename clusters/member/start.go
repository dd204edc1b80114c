// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// starting reports whether what stands has yet to be held against the lists of some stream.
func (s *State) starting() bool {
	for scope, st := range s.streams {
		if scope.Kind <= Services && !st.stood {
			return true
		}
	}
	return false
}

// settled reports whether what stands was held against the lists of a namespace.
func (s *State) settled(namespace string) bool {
	pods, services := s.stream(Pods, namespace), s.stream(Services, namespace)
	return pods != nil && pods.stood && services.stood
}

// standing reports whether what stands in a replica of a namespace that is followed is the share:
// it is not known yet what the Service, its pods, or who writes its endpoints by hand say.
func (s *State) standing(replica syncer.Key) bool {
	if s.tables.HasService(replica) {
		return !s.stream(Pods, replica.Namespace).stood || s.hand[replica] && s.handUnread(replica)
	}
	return s.waits(replica) || s.asking.of(Services, replica) != nil || !s.stream(Services, replica.Namespace).stood
}

// stood holds what stands of the member against the lists that have come: what stands and is in
// no table is asked for, and from then on the tables say what the share is (T5).
func (s *State) stood(all []PublishedShare, o *step) {
	o.Bulk = true
	c := &Cause{Kind: "Cluster", Event: "listed", Arrived: s.now}
	compare := func(replica syncer.Key) {
		if !s.settled(replica.Namespace) || s.standing(replica) {
			o.add(replica, syncer.Addition, c)
		}
	}
	for replica := range s.tables.Replicas() {
		compare(replica)
	}
	for i := range all {
		compare(all[i].Replica)
		s.ask(&all[i], o)
	}
	for _, st := range s.streams {
		st.stood = st.listed
	}
	s.stands = map[syncer.Key][]syncer.Key{}
	for i := range all {
		s.index(&all[i])
	}
	s.reuse(o)
}

// ask asks for what stands in a replica and is not in a table whose list has come.
func (s *State) ask(st *PublishedShare, o *step) {
	pods, services := s.stream(Pods, st.Replica.Namespace), s.stream(Services, st.Replica.Namespace)
	if pods == nil {
		return
	}
	if services.listed && !services.stood && !s.tables.HasService(st.Replica) && !s.waits(st.Replica) {
		s.asking.begin(Services, st.Replica, "", o)
	}
	for i := range st.Endpoints {
		if e := &st.Endpoints[i]; pods.listed && !pods.stood && podTarget(e) {
			s.askPod(e, o)
		}
	}
}

// askPod asks for the pod of an endpoint that stands, if it is in no table. It takes over
// that a pod was in doubt, which is all that is remembered of a pod (T6).
func (s *State) askPod(e *syncer.Endpoint, o *step) {
	if pod, revision, known := s.tables.Pod(e.Target.Key); known {
		if pod.UID == e.Target.UID && e.Grade == syncer.Reserve && !pod.WasReady {
			pod.WasReady = true
			s.tables.SetPod(store.Versioned[syncer.Pod]{Object: *pod, Revision: revision})
		}
		return
	}
	if e.Grade == syncer.NotReady && s.asking.of(Pods, e.Target.Key) == nil {
		return
	}
	if q := s.asking.begin(Pods, e.Target.Key, e.Target.UID, o); q.UID == e.Target.UID {
		s.asking.lies(q, e.Addr)
	}
}

// due reports whether news of a Service need not wait: its pods are level with it, for a selector may
// choose pods that nobody has seen (T5), and its stream has shown what happened in a gap, for what is
// gone may have been made again. That it is gone does not wait for pods.
func (s *State) due(key syncer.Key, n *Shown[syncer.Service]) bool {
	pods, services := s.stream(Pods, key.Namespace), s.stream(Services, key.Namespace)
	return services.settled(s.now) && (n.Object == nil || pods.level(n.Object.Revision, s.now))
}

// heldService is the Service in its table, with the revision of what was shown last, if that waits: a store
// that went back has lower ones.
func (s *State) heldService(key syncer.Key) (held *syncer.Service, revision uint64, known bool) {
	if held, revision, known = s.tables.Service(key); s.news[key] != nil {
		revision = s.news[key].Revision
	}
	return held, revision, known
}

// setService takes a Service into its table, or has it wait.
func (s *State) setService(v store.Versioned[syncer.Service]) []store.Dirty {
	delete(s.news, v.Object.Key)
	if n := (&Shown[syncer.Service]{Object: &v, Revision: v.Revision}); !s.due(v.Object.Key, n) {
		s.news[v.Object.Key] = n
		return nil
	}
	return s.tables.SetService(v)
}

// shownService takes in what its stream shows of a Service, or has it wait that it is gone.
func (s *State) shownService(e *Shown[syncer.Service], o *step) {
	st := s.streams[e.Scope]
	if st != nil && e.Object == nil && s.tables.HasService(e.Key) && !s.due(e.Key, e) {
		st.at = max(st.at, e.Revision)
		s.news[e.Key] = e
		return
	}
	s.services.shown(st, e, o)
}

// release takes in what need not wait any more. Nobody is to take the time that it waited for the
// time that a change takes.
func (s *State) release(o *step) {
	if len(s.news) == 0 { // after each event: a map that was large takes long to look through
		return
	}
	var due []syncer.Key
	for key, n := range s.news {
		if s.due(key, n) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, syncer.Key.Compare)
	for _, key := range due {
		if n := s.news[key]; n.Object == nil {
			delete(s.news, key)
			s.services.shown(s.streams[n.Scope], n, o)
		} else {
			s.services.take(*n.Object, Cause{Event: "modified", Arrived: s.now}, o)
		}
	}
}

// waits reports whether a Service is known that is in no table yet.
func (s *State) waits(service syncer.Key) bool {
	n := s.news[service]
	return n != nil && n.Object != nil
}

// listedServices takes in a list of Services. It is asked for what waited, and is not in it.
func (s *State) listedServices(e *Listed[syncer.Service], o *step) {
	waited := slices.SortedFunc(maps.Keys(s.news), syncer.Key.Compare)
	maps.DeleteFunc(s.news, func(key syncer.Key, _ *Shown[syncer.Service]) bool { return e.Scope.covers(key) })
	s.services.listed(s.streams[e.Scope], e, false, o)
	if st := s.streams[e.Scope]; st != nil {
		st.resumed = time.Time{} // the list is what happened
	}
	for _, key := range waited {
		if !s.tables.HasService(key) && !s.waits(key) {
			s.asking.begin(Services, key, "", o)
		}
	}
}

// podTarget reports whether an endpoint is one of a pod that can be asked for.
func podTarget(e *syncer.Endpoint) bool { return e.Target.Kind == Pods.String() && e.Target.UID != "" }

// index notes in which replica a pod stands, if news of the pod may change that. What stands
// itself is never kept: it is read when a replica is compared.
func (s *State) index(st *PublishedShare) {
	if s.stream(Pods, st.Replica.Namespace) == nil {
		return
	}
	standing := s.standing(st.Replica)
	for i := range st.Endpoints {
		if e := &st.Endpoints[i]; podTarget(e) && (standing || s.asking.about(e)) {
			s.stands[e.Target.Key] = append(s.stands[e.Target.Key], st.Replica)
		}
	}
}

// podChanged tells those in whose replica a pod stands, or an address of it.
func (s *State) podChanged(key syncer.Key, after *syncer.Pod, c *Cause, o *step) {
	o.touch(s.stands[key], c)
	if after != nil {
		s.expel(after, o)
	}
}

// expel takes the addresses that a live pod has for itself from all pods that are asked for (T2).
// Their questions stay open: they may be there with another one.
func (s *State) expel(by *syncer.Pod, o *step) {
	for i := range by.IPs {
		addr := by.IPs[i].Addr
		for _, key := range s.asking.at[addr] {
			q := s.asking.of(Pods, key)
			if by.HostNetwork || key == by.Key || q == nil || !slices.Contains(q.addrs, addr) {
				continue
			}
			q.addrs = slices.DeleteFunc(q.addrs, func(lost netip.Addr) bool { return lost == addr })
			c := &Cause{Kind: Pods.String(), Key: key, UID: q.UID, Event: "missing", Arrived: s.now}
			for _, d := range s.tables.RemovePod(key) {
				s.stands[key] = append(s.stands[key], d.Replica)
			}
			o.touch(s.stands[key], c)
		}
	}
}

// reuse looks among all pods for the addresses of those that are asked for.
func (s *State) reuse(o *step) {
	if len(s.asking.at) == 0 {
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(maps.Collect(s.tables.Pods(""))), syncer.Key.Compare) {
		if pod, _, known := s.tables.Pod(key); known && s.asking.of(Pods, key) == nil {
			s.expel(pod, o)
		}
	}
}
