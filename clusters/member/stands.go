// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// podTarget reports whether an endpoint is one of a pod that can be asked for.
func podTarget(e *syncer.Endpoint) bool { return e.Target.Kind == Pods.String() && e.Target.UID != "" }

// index notes in which replica a pod stands, if news of the pod may change that. What stands
// itself is never kept: it is read when a replica is compared.
func (s *State) index(st *Standing) {
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
