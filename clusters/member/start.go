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

// asPublished reports whether the share is what is published of a replica, in a namespace that is
// followed: its Service, its pods or its hand-written endpoints are not known yet.
func (s *State) asPublished(replica syncer.Key) bool {
	if s.tables.HasService(replica) {
		return !s.stream(Pods, replica.Namespace).compared || s.hand[replica] && s.handUnread(replica)
	}
	return s.news[replica] != nil || s.asking.of(Services, replica) != nil || !s.stream(Services, replica.Namespace).compared
}

// comparePublished compares what is published of the member with the lists that have come: what is
// published and in no table is asked for. From then on the share comes from the tables (T5).
func (s *State) comparePublished(all Published, o *step) {
	o.Bulk = true
	c := &Cause{Kind: "Cluster", Event: "listed", Arrived: s.now}
	mark := func(replica syncer.Key) {
		pods, services := s.stream(Pods, replica.Namespace), s.stream(Services, replica.Namespace)
		if pods == nil || !pods.compared || !services.compared || s.asPublished(replica) {
			o.add(replica, syncer.Addition, c)
		}
	}
	for replica := range s.tables.Replicas() {
		mark(replica)
	}
	published := slices.SortedFunc(maps.Keys(all), syncer.Key.Compare)
	for _, replica := range published {
		mark(replica)
		s.ask(replica, all[replica], o)
	}
	for _, st := range s.streams {
		st.compared = st.listed
	}
	// The published endpoint itself is not stored: it is read from the cache when the replica is compared.
	s.publishedIn = map[syncer.Key][]syncer.Key{}
	for _, replica := range published {
		asPublished := s.stream(Pods, replica.Namespace) != nil && s.asPublished(replica)
		for i := range all[replica] {
			if e := &all[replica][i]; podTarget(e) && (asPublished || s.asking.about(e)) { // news of it may change that
				s.publishedIn[e.Target.Key] = append(s.publishedIn[e.Target.Key], replica)
			}
		}
	}
	s.reuse(o)
}

// ask asks for what is published in a replica and is not in a table whose list has come. From the grade
// Reserve it learns that a known pod was ready before, which is all that is remembered of a pod (T6).
func (s *State) ask(replica syncer.Key, endpoints []syncer.Endpoint, o *step) {
	pods, services := s.stream(Pods, replica.Namespace), s.stream(Services, replica.Namespace)
	if pods == nil {
		return
	}
	if services.listed && !services.compared && !s.tables.HasService(replica) && s.news[replica] == nil {
		s.asking.begin(Services, replica, "", o)
	}
	for i := range endpoints {
		e := &endpoints[i]
		if !pods.listed || pods.compared || !podTarget(e) {
			continue
		}
		pod, revision, known := s.tables.Pod(e.Target.Key)
		switch {
		case !known && (e.Grade != syncer.NotReady || s.asking.of(Pods, e.Target.Key) != nil):
			if q := s.asking.begin(Pods, e.Target.Key, e.Target.UID, o); q.UID == e.Target.UID {
				s.asking.addAddr(q, e.Addr)
			}
		case known && pod.UID == e.Target.UID && e.Grade == syncer.Reserve && !pod.WasReady:
			pod.WasReady = true
			s.tables.SetPod(store.Versioned[syncer.Pod]{Object: *pod, Revision: revision})
		}
	}
}

// due reports whether news of a Service need not wait. It waits until its pods are level with it, for
// a selector may choose pods that were not seen yet (T5), and until its stream has shown what happened
// in a gap, for what is gone may have been created again. A deletion, and one without a selector, does
// not wait for pods.
func (s *State) due(key syncer.Key, n *Shown[syncer.Service]) bool {
	pods, services := s.stream(Pods, key.Namespace), s.stream(Services, key.Namespace)
	return services.settled(s.now) &&
		(n.Object == nil || n.Object.Object.Selector == nil || pods.listed && pods.following && (pods.at >= n.Revision || pods.settled(s.now)))
}

// heldService returns the Service in its table. If newer news of it waits, the revision is that of the
// news: in a store that went back it is lower.
func (s *State) heldService(key syncer.Key) (held *syncer.Service, revision uint64, known bool) {
	held, revision, known = s.tables.Service(key)
	if s.news[key] != nil {
		revision = s.news[key].Revision
	}
	return held, revision, known
}

// setService puts a Service into its table, or has it wait.
func (s *State) setService(v store.Versioned[syncer.Service]) []store.Dirty {
	delete(s.news, v.Object.Key)
	if n := (&Shown[syncer.Service]{Object: &v, Revision: v.Revision}); !s.due(v.Object.Key, n) {
		s.news[v.Object.Key] = n
		return nil
	}
	return s.tables.SetService(v)
}

// shownService applies what its stream shows of a Service, or has a deletion wait.
func (s *State) shownService(st *stream, e *Shown[syncer.Service], o *step) {
	if e.Object == nil && s.tables.HasService(e.Key) && !s.due(e.Key, e) {
		st.at = max(st.at, e.Revision)
		s.news[e.Key] = e
		return
	}
	s.services.shown(st, e, o)
}

// release applies what need not wait any more. An object counts as arrived now: its wait is no
// latency.
func (s *State) release(o *step) {
	if len(s.news) == 0 { // this runs after each event, and to range over a map that was large takes long
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

// listedServices applies a list of Services. What waited and is not in it is asked for.
func (s *State) listedServices(st *stream, e *Listed[syncer.Service], o *step) {
	waited := slices.SortedFunc(maps.Keys(s.news), syncer.Key.Compare)
	for _, key := range waited {
		if !e.Scope.covers(key) {
			continue
		}
		if _, revision, _ := s.tables.Service(key); s.news[key].Revision < revision { // the table has a Service of before its store went back
			st.at = 0
		}
		delete(s.news, key)
	}
	s.services.listed(st, e, false, o)
	st.resumed = time.Time{} // the list has what happened meanwhile
	for _, key := range waited {
		if !s.tables.HasService(key) && s.news[key] == nil {
			s.asking.begin(Services, key, "", o)
		}
	}
}

// podTarget reports whether an endpoint names a pod that can be asked for.
func podTarget(e *syncer.Endpoint) bool { return e.Target.Kind == Pods.String() && e.Target.UID != "" }

// podChanged marks the replicas dirty in which a pod, or an address of it, is published.
func (s *State) podChanged(key syncer.Key, after *syncer.Pod, c *Cause, o *step) {
	o.touch(s.publishedIn[key], c)
	if after != nil {
		s.expel(after, o)
	}
}

// expel takes the addresses of a live pod away from all pods that are asked for (T2). Their
// questions stay open: they may exist with another address.
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
			s.unread(key)
			o.touch(s.publishedIn[key], c)
		}
	}
}

// unread takes a pod that is asked for out of its table.
func (s *State) unread(key syncer.Key) {
	for _, d := range s.tables.RemovePod(key) {
		s.publishedIn[key] = append(s.publishedIn[key], d.Replica)
	}
}

// reuse looks for live pods that have the address of one that is asked for.
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
