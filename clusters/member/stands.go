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
	if after != nil && s.shows(after) {
		s.expel(after, o)
	}
}

// shows reports whether a live pod has an address for itself that a pod had which is asked for.
func (s *State) shows(pod *syncer.Pod) bool {
	return len(s.asking.at) > 0 && !pod.HostNetwork &&
		slices.ContainsFunc(pod.IPs, func(ip syncer.PodIP) bool { return s.asking.at[ip.Addr] != nil })
}

// expel takes the addresses of a live pod from all pods that are asked for (T2). Their questions
// stay open: they may be there with another one.
func (s *State) expel(by *syncer.Pod, o *step) {
	for i := range by.IPs {
		addr := by.IPs[i].Addr
		for _, key := range s.asking.at[addr] {
			q := s.asking.of(Pods, key)
			if q == nil || key == by.Key || !slices.Contains(q.addrs, addr) {
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
	var by []*syncer.Pod // the table must not be changed while it is walked
	for key := range s.tables.Pods("") {
		if len(s.asking.at) == 0 {
			return
		}
		if pod, _, _ := s.tables.Pod(key); s.asking.of(Pods, key) == nil && s.shows(pod) {
			by = append(by, pod)
		}
	}
	for _, pod := range by {
		s.expel(pod, o)
	}
}
