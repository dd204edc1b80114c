// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// podTarget reports whether an endpoint is one of a pod that can be asked for.
func podTarget(e *syncer.Endpoint) bool { return e.Target.Kind == Pods.String() && e.Target.UID != "" }

// stands is how it is found whom news of a pod concerns while a start is not over, or pods are
// missing. What stands itself is never kept: it is read when a replica is compared.
type stands struct {
	// pods are those that stand, with their replicas.
	pods map[syncer.Key][]syncer.Key
	// addrs are addresses that stand, or that a missing pod had, with the replicas they stand
	// in; shown are those of them that a live pod has shown since.
	addrs map[netip.Addr][]syncer.Key
	shown map[netip.Addr]syncer.Key
}

func newStands() stands {
	return stands{map[syncer.Key][]syncer.Key{}, map[netip.Addr][]syncer.Key{}, map[netip.Addr]syncer.Key{}}
}

func (s *stands) hasPod(key syncer.Key) bool { return s.pods[key] != nil }

// index notes what stands in a replica.
func (s *stands) index(st *Standing) {
	for i := range st.Endpoints {
		if e := &st.Endpoints[i]; podTarget(e) {
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

// show notes watched addresses that a live pod has for itself, and returns those.
func (s *stands) show(pod *syncer.Pod) (addrs []netip.Addr) {
	for i := range pod.IPs {
		addr := pod.IPs[i].Addr
		if _, watched := s.addrs[addr]; watched && !pod.HostNetwork && s.shown[addr] != pod.Key {
			s.shown[addr] = pod.Key
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// watch has the addresses of missing pods leave them as soon as a live pod shows one (T2).
// shown are addresses that were shown before.
func (s *State) watch(shown map[netip.Addr]syncer.Key, o *step) {
	for _, q := range s.asking.open {
		pod, _, known := s.tables.Pod(q.Key)
		if known && q.Kind == Pods && q.addrs == nil {
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
			s.stands.show(pod)
		}
	}
	s.expel(o)
}

// expel takes missing pods out of their table if others have their address. Their questions stay
// open: they may be there with another one.
func (s *State) expel(o *step) {
	for _, q := range s.asking.open {
		if slices.ContainsFunc(q.addrs, func(addr netip.Addr) bool { return s.stands.reused(addr, q.Key) }) {
			c := &Cause{Kind: Pods.String(), Key: q.Key, UID: q.UID, Event: "missing", Arrived: o.now}
			o.dirty(s.tables.RemovePod(q.Key), c)
			o.touch(q.replicas, c)
		}
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
	if shown := s.stands.show(after); len(shown) > 0 {
		for _, addr := range shown {
			o.touch(s.stands.addrs[addr], c)
		}
		s.expel(o)
	}
}
