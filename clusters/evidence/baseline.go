// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// baseline is what stands of the member in the ingress cluster from before this
// process, as far as nothing else is known of it. A start is judged by it like a list
// by what the list before showed.
type baseline struct {
	replicas map[syncer.Key]*baselineReplica
	bySource map[syncer.Key][]*baselineReplica
	byPod    map[syncer.Key][]*baselineEndpoint
	byAddr   map[netip.Addr][]*baselineEndpoint
	// idle are the sources of replicas in which nothing stands ready.
	idle map[syncer.Key][]syncer.Key
}

// baselineReplica is what stands in one replica.
type baselineReplica struct {
	key     syncer.Key
	sources []syncer.Key
	// publishing are the sources that are on record as taking every pod for ready.
	publishing []syncer.Key
	// written are the objects that its hand-written endpoints stand in, by source.
	written   map[syncer.Key][]string
	endpoints []*baselineEndpoint // those that stand ready
	// stood is how many that are as members count, left has those that are not all dropped,
	// with how many are not.
	stood int
	left  map[counted]int
	// judged is true once its endpoints were compared with what the member shows. What
	// is left of them then is unsettled.
	judged bool
	// given are the pods that the member gives to it, withdrawn those that it gave: until it
	// is judged what stands is kept, but not these.
	given, withdrawn map[podAddress]bool
}

// podAddress is an address of a pod; pods of one host share theirs.
type podAddress struct {
	netip.Addr
	uid string
}

// baselineEndpoint is an endpoint that stands ready.
type baselineEndpoint struct {
	in       *baselineReplica
	endpoint syncer.Endpoint
	byHand   bool // the pod that it may name says nothing of it
	dropped  bool // it is known to be gone, or the member's own share has it
	// waits are the absent objects that would settle it: its pod by itself, or all of the
	// Services and what is written by hand for them.
	waits []*absence
}

// pod is the key of the pod that an endpoint is of; ok is false where it is of none. What
// is computed from pods has their UIDs.
func (e *baselineEndpoint) pod() (syncer.Key, bool) {
	pod := &e.endpoint.Target
	return pod.Key, pod.Kind == "Pod" && pod.Name != "" && pod.UID != "" && !e.byHand
}

// namespace is that of the pod that an endpoint is of; "" where it is of none.
func (e *baselineEndpoint) namespace() string {
	if pod, named := e.pod(); named {
		return pod.Namespace
	}
	return ""
}

// sources are those of its replica that may give an endpoint.
func (e *baselineEndpoint) sources() []syncer.Key { return sourcesIn(e.namespace(), e.in.sources) }

// sourcesIn are the Services that may select pods of a namespace: those in it, or all where none
// of them is on record.
func sourcesIn(namespace string, all []syncer.Key) []syncer.Key {
	is := slices.DeleteFunc(slices.Clone(all), func(source syncer.Key) bool { return source.Namespace != namespace })
	if len(is) == 0 {
		return all
	}
	return is
}

// counted is what counts as one endpoint, as for a member: a pod, however many addresses it
// has, or where there is none an address, in however many lists it stands.
type counted struct {
	netip.Addr
	uid string
}

func (e *baselineEndpoint) counted() counted {
	if _, named := e.pod(); named {
		return counted{uid: e.endpoint.Target.UID}
	}
	return counted{Addr: e.endpoint.Addr}
}

// open are the endpoints that are not dropped.
func (r *baselineReplica) open() (left []*baselineEndpoint) {
	for _, e := range r.endpoints {
		if !e.dropped {
			left = append(left, e)
		}
	}
	return left
}

func (st *baseline) set(b Baseline) {
	*st = baseline{
		replicas: map[syncer.Key]*baselineReplica{}, bySource: map[syncer.Key][]*baselineReplica{},
		byPod: map[syncer.Key][]*baselineEndpoint{}, byAddr: map[netip.Addr][]*baselineEndpoint{},
		idle: map[syncer.Key][]syncer.Key{},
	}
	for key, s := range b.Replicas {
		r := &baselineReplica{key: key, sources: s.Sources, publishing: s.Publishing, written: s.HandWritten, left: map[counted]int{}}
		allByHand := len(s.HandWritten) > 0 && len(s.HandWritten) == len(s.Sources)
		for _, e := range s.Endpoints {
			if !e.Ready {
				continue
			}
			one := &baselineEndpoint{in: r, endpoint: e, byHand: allByHand || slices.Contains(s.WrittenOf, e.Addr)}
			r.endpoints = append(r.endpoints, one)
			r.left[one.counted()]++
			if pod, named := one.pod(); named {
				st.byPod[pod] = append(st.byPod[pod], one)
				st.byAddr[e.Addr] = append(st.byAddr[e.Addr], one)
			}
		}
		if r.stood = len(r.left); r.stood == 0 {
			st.idle[key] = r.sources
			continue
		}
		st.replicas[key] = r
		for _, source := range r.sources {
			st.bySource[source] = append(st.bySource[source], r)
		}
	}
}

// zones are those of nodes, as what stands of pods names them.
func (b *Baseline) zones() map[string]string {
	zones := map[string]string{}
	for _, r := range b.Replicas {
		for _, e := range r.Endpoints {
			if e.Zone != "" && e.NodeName != "" && e.Target.UID != "" {
				zones[e.NodeName] = e.Zone
			}
		}
	}
	return zones
}

// pod returns a pod as it was when it stood ready; nil if it did not.
func (st *baseline) pod(p *syncer.Pod) *syncer.Pod {
	for _, e := range st.byPod[p.Key] {
		if !e.dropped && !e.in.judged && e.endpoint.Target.UID == p.UID && store.HasAddress(p, e.endpoint.Addr) {
			was := *p
			was.Ready, was.Deleted, was.Terminal = true, 0, false
			return &was
		}
	}
	return nil
}

// stands reports whether anything stands of a pod.
func (st *baseline) stands(pod syncer.Key, uid string) bool {
	return slices.ContainsFunc(st.byPod[pod], func(e *baselineEndpoint) bool { return e.endpoint.Target.UID == uid })
}

// replicasOf are the replicas in which a pod stands.
func (st *baseline) replicasOf(pod syncer.Key) (replicas []syncer.Key) {
	for _, e := range st.byPod[pod] {
		replicas = append(replicas, e.in.key)
	}
	return replicas
}

// left counts the endpoints of a replica that are kept because they stand, though lists
// lack what they are of.
func (st *baseline) left(replica syncer.Key) int {
	r := st.replicas[replica]
	switch {
	case r == nil:
		return 0
	case r.judged:
		return len(r.left)
	}
	waiting := map[counted]bool{}
	for _, e := range r.endpoints {
		if !e.dropped && len(e.waits) > 0 {
			waiting[e.counted()] = true
		}
	}
	return len(waiting)
}

// writtenIn are the objects that hand-written endpoints of a Service stand in; nil is unknown.
func (st *baseline) writtenIn(source syncer.Key) (names []string) {
	for _, r := range st.fedBy(source) {
		if r.written[source] == nil {
			return nil
		}
		names = append(names, r.written[source]...)
	}
	return names
}

// fedBy are the replicas that stand and were fed by a Service.
func (st *baseline) fedBy(source syncer.Key) []*baselineReplica {
	return slices.DeleteFunc(slices.Clone(st.bySource[source]), func(r *baselineReplica) bool { return st.replicas[r.key] != r })
}

// doubtSource has replicas judged anew that stand and were fed by a Service that lists
// lack.
func (st *baseline) doubtSource(source syncer.Key) {
	for _, r := range st.fedBy(source) {
		r.judged = false
	}
}

// noteGiven notes what the member gives to replicas that stand and are not judged yet.
// What it gave and does not give any more was its own, whatever else waits.
func (s *State) noteGiven(out *Effects) {
	if !s.synced || len(s.baseline.replicas) == 0 {
		return
	}
	for _, c := range out.Changes {
		for _, d := range c.Dirty {
			if r := s.baseline.replicas[d.Replica]; r != nil && !r.judged {
				s.dropAll(r.give(s.addressesIn(r.key)), c.Cause, out)
			}
		}
	}
}

// give notes the addresses of pods that the member gives, and returns what stands of those
// that it gave before.
func (r *baselineReplica) give(is map[podAddress]bool) (drop []*baselineEndpoint) {
	if r.withdrawn == nil {
		r.withdrawn = map[podAddress]bool{}
	}
	maps.Copy(r.withdrawn, r.given)
	maps.DeleteFunc(r.withdrawn, func(a podAddress, _ bool) bool { return is[a] })
	r.given = is
	for _, e := range r.open() {
		if _, named := e.pod(); named && r.withdrawn[e.address()] {
			drop = append(drop, e)
		}
	}
	return drop
}

func (e *baselineEndpoint) address() podAddress {
	return podAddress{e.endpoint.Addr, e.endpoint.Target.UID}
}

// addressesIn are the addresses of the pods behind a replica.
func (s *State) addressesIn(replica syncer.Key) map[podAddress]bool {
	is := map[podAddress]bool{}
	for _, source := range s.store.Sources(replica) {
		pods, effective := s.store.Selected(source)
		if effective == nil {
			continue
		}
		for p := range pods {
			for _, addr := range addressesOf(p) {
				is[podAddress{addr, p.UID}] = true
			}
		}
	}
	return is
}
