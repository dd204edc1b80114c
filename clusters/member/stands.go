// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"

	"tributary.dev/tributary/next/syncer"
)

// stands is by what it is found whom news of a pod concerns: replicas whose start is not
// over, and pods that are missing. What stands itself is never kept: it is read when a
// replica is compared.
type stands struct {
	// pods are those that stand, with their replicas.
	pods map[syncer.Key][]syncer.Key
	// addrs are addresses that stand, or that a missing pod had, with the replicas they
	// stand in.
	addrs map[netip.Addr][]syncer.Key
	// shown are those of them that a live pod has shown since.
	shown map[netip.Addr]syncer.Key
}

func newStands() stands {
	return stands{map[syncer.Key][]syncer.Key{}, map[netip.Addr][]syncer.Key{}, map[netip.Addr]syncer.Key{}}
}

func (s *stands) hasPod(key syncer.Key) bool { return s.pods[key] != nil }

// index notes what stands in a replica.
func (s *stands) index(st *Standing) {
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		if podTarget(e) {
			s.pods[e.Target.Key] = append(s.pods[e.Target.Key], st.Replica)
			s.addrs[e.Addr] = append(s.addrs[e.Addr], st.Replica)
		}
	}
}

// reused reports whether a live pod other than one shows its address.
func (s *stands) reused(addr netip.Addr, pod syncer.Key) bool {
	by, shown := s.shown[addr]
	return shown && by != pod
}

// watch has the addresses of missing pods leave them as soon as a live pod shows one (T2).
// shown are addresses that were shown before.
func (s *State) watch(asked []*question, shown map[netip.Addr]syncer.Key, o *step) {
	for _, q := range asked {
		if q.Kind != Pods {
			continue
		}
		if pod, _, known := s.tables.Pod(q.Key); known && q.addrs == nil {
			for i := range pod.IPs {
				q.addrs = append(q.addrs, pod.IPs[i].Addr)
			}
		}
		for _, addr := range q.addrs {
			s.stands.addrs[addr] = append(s.stands.addrs[addr], q.replicas...)
		}
	}
	if len(s.stands.addrs) == 0 {
		return
	}
	for addr, by := range shown {
		if _, watched := s.stands.addrs[addr]; watched {
			s.stands.shown[addr] = by
		}
	}
	for key := range s.tables.Pods("") {
		if pod, _, known := s.tables.Pod(key); known && s.asking.of(Pods, key) == nil {
			s.show(pod)
		}
	}
	for _, q := range asked {
		s.expel(q, o)
	}
}

// show notes watched addresses that a live pod has, and returns those.
func (s *State) show(pod *syncer.Pod) (addrs []netip.Addr) {
	if pod.HostNetwork {
		return nil
	}
	for i := range pod.IPs {
		addr := pod.IPs[i].Addr
		if _, watched := s.stands.addrs[addr]; watched && s.stands.shown[addr] != pod.Key {
			s.stands.shown[addr] = pod.Key
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// expel takes a missing pod out of its table if another has its address. Its question stays
// open: it may be there with another one.
func (s *State) expel(q *question, o *step) {
	for _, addr := range q.addrs {
		if q.Kind != Pods || !s.stands.reused(addr, q.Key) {
			continue
		}
		c := Cause{Kind: podKind, Key: q.Key, UID: q.UID, Event: EventMissing, Arrived: o.now}
		o.dirty(s.tables.RemovePod(q.Key), &c)
		o.touch(q.replicas, &c)
		return
	}
}

// podChanged tells those who know a pod, or an address of it, by what stands or is missing.
func (s *State) podChanged(key syncer.Key, _, after *syncer.Pod, c *Cause, o *step) {
	if len(s.stands.addrs) == 0 {
		return
	}
	o.touch(s.stands.pods[key], c)
	if after == nil {
		return
	}
	shown := s.show(after)
	for _, addr := range shown {
		o.touch(s.stands.addrs[addr], c)
	}
	if len(shown) > 0 {
		for _, q := range s.asking.open {
			s.expel(q, o)
		}
	}
}
