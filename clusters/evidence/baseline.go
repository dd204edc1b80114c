// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"maps"
	"net/netip"
	"slices"
	"time"

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
}

// baselineReplica is what stands in one replica.
type baselineReplica struct {
	key     syncer.Key
	sources []syncer.Key
	// publishing are the sources that are on record as taking every pod for ready; byHand is
	// true where what stands is written by hand: the pods that it names say nothing of it.
	publishing []syncer.Key
	byHand     bool
	endpoints  []*baselineEndpoint // those that stand ready
	left       int                 // those of them that are not dropped
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
	dropped  bool // it is known to be gone, or the member's own share has it
	// waits are the absent objects that would settle it: its pod by itself, or all of the
	// Services and what is written by hand for them.
	waits []*absence
}

// pod is the key of the pod that an endpoint is of; ok is false where it is of none. What
// is computed from pods has their UIDs.
func (e *baselineEndpoint) pod() (syncer.Key, bool) {
	pod := &e.endpoint.Target
	return pod.Key, pod.Kind == "Pod" && pod.Name != "" && pod.UID != "" && !e.in.byHand
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
	}
	for key, s := range b.Replicas {
		r := &baselineReplica{key: key, sources: s.Sources, publishing: s.Publishing}
		r.byHand = len(s.HandWritten) > 0 && len(s.HandWritten) == len(s.Sources)
		for _, e := range s.Endpoints {
			if !e.Ready {
				continue
			}
			one := &baselineEndpoint{in: r, endpoint: e}
			r.endpoints = append(r.endpoints, one)
			if pod, named := one.pod(); named {
				st.byPod[pod] = append(st.byPod[pod], one)
				st.byAddr[e.Addr] = append(st.byAddr[e.Addr], one)
			}
		}
		if r.left = len(r.endpoints); r.left > 0 {
			st.replicas[key] = r
			for _, source := range r.sources {
				st.bySource[source] = append(st.bySource[source], r)
			}
		}
	}
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

// of are the endpoints of pods by UID.
func (st *baseline) of(uids []string) (all []*baselineEndpoint) {
	is := map[string]bool{}
	for _, uid := range uids {
		is[uid] = true
	}
	for _, r := range st.replicas {
		for _, e := range r.endpoints {
			if _, named := e.pod(); named && is[e.endpoint.Target.UID] {
				all = append(all, e)
			}
		}
	}
	return all
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
		return r.left
	}
	n := 0
	for _, e := range r.endpoints {
		if !e.dropped && len(e.waits) > 0 {
			n++
		}
	}
	return n
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

// dropBaseline takes an endpoint from what stands.
func (s *State) dropBaseline(e *baselineEndpoint) []store.Dirty {
	if e.dropped {
		return nil
	}
	e.dropped = true
	e.in.left--
	for _, a := range e.waits {
		if a.baseline = slices.DeleteFunc(a.baseline, func(x *baselineEndpoint) bool { return x == e }); len(a.baseline) == 0 {
			s.reappeared(a.id) // there is nothing to ask for any more
		}
	}
	e.waits = nil
	st := &s.baseline
	if pod, named := e.pod(); named {
		remove := func(list []*baselineEndpoint) []*baselineEndpoint {
			return slices.DeleteFunc(list, func(x *baselineEndpoint) bool { return x == e })
		}
		if st.byPod[pod] = remove(st.byPod[pod]); len(st.byPod[pod]) == 0 {
			delete(st.byPod, pod)
			if s.store.Pod(pod) == nil {
				s.readiness.gone(pod) // what it said counted as long as it stood
			}
		}
		if st.byAddr[e.endpoint.Addr] = remove(st.byAddr[e.endpoint.Addr]); len(st.byAddr[e.endpoint.Addr]) == 0 {
			delete(st.byAddr, e.endpoint.Addr)
		}
	}
	if e.in.judged && e.in.left == 0 {
		delete(st.replicas, e.in.key)
	}
	source := e.in.key
	if len(e.in.sources) > 0 {
		source = e.in.sources[0]
	}
	return []store.Dirty{{Replica: e.in.key, Source: source, Effect: syncer.Removal}}
}

// settleBaseline takes in that an object is gone that endpoints wait for.
func (s *State) settleBaseline(a *absence) (dirty []store.Dirty) {
	for _, e := range slices.Clone(a.baseline) {
		if a.id.Kind == Pods || !slices.ContainsFunc(e.waits, func(b *absence) bool { return b.id.Kind != Pods }) {
			dirty = append(dirty, s.dropBaseline(e)...)
		}
	}
	return dirty
}

// dropAll drops endpoints, and says so even before the member was read whole.
func (s *State) dropAll(drop []*baselineEndpoint, cause Cause, out *Effects) {
	var dirty []store.Dirty
	for _, e := range drop {
		dirty = append(dirty, s.dropBaseline(e)...)
	}
	if len(dirty) > 0 {
		out.Changes = append(out.Changes, Change{Cause: cause, Dirty: merged(dirty)})
	}
}

// meetBaseline compares what a pod says of itself with what stands of it: a pod with
// another UID or address, or one that is going or not ready, is no longer what stands.
func (s *State) meetBaseline(p *syncer.Pod, out *Effects) {
	endpoints := s.baseline.byPod[p.Key]
	if len(endpoints) == 0 {
		return
	}
	taken := *p
	if held := s.store.Pod(p.Key); held != nil && held.UID == p.UID {
		taken = *held // ready for a panic, or a silent node
	}
	var drop []*baselineEndpoint
	for _, e := range endpoints {
		same := e.endpoint.Target.UID == taken.UID && store.HasAddress(&taken, e.endpoint.Addr) && !taken.Terminal
		ready := !taken.Terminating() && taken.Ready || s.published(e.in) ||
			!taken.Terminating() && s.store.MakesReady(s.cfg.Decider, p.Key, e.in.sources)
		if same && !ready {
			s.damping.fell(e)
		}
		switch {
		case !same || !ready, e.in.judged && (!s.lacksSource(e.in) || s.gives(e)):
			drop = append(drop, e)
		}
	}
	s.dropAll(drop, (*pods)(nil).cause(p, 0, "relist"), out)
}

// published reports whether a replica that stands takes every pod for ready: as its
// Services say, or while one is not known the record.
func (s *State) published(r *baselineReplica) bool {
	return slices.ContainsFunc(r.sources, func(source syncer.Key) bool {
		if s.store.Service(source) == nil {
			return slices.Contains(r.publishing, source)
		}
		return s.store.Publishes(source)
	})
}

// lacksSource reports whether a Service that fed a replica is absent.
func (s *State) lacksSource(r *baselineReplica) bool {
	return slices.ContainsFunc(r.sources, func(source syncer.Key) bool {
		_, found := s.store.Source(source)
		return !found && s.follows(source.Namespace)
	})
}

func (s *State) follows(namespace string) bool {
	return s.cfg.Follows == nil || s.cfg.Follows(namespace)
}

// baselineReused takes an address from what stands of another pod than the one that
// has it now. A list, and a pod that is not ready, say nothing of one that is shown with it as well.
func (s *State) baselineReused(addr netip.Addr, p *syncer.Pod, listed bool, out *Effects) {
	var drop []*baselineEndpoint
	for _, e := range s.baseline.byAddr[addr] {
		pod := e.endpoint.Target
		same := pod.Key == p.Key && pod.UID == p.UID
		is := s.store.Pod(pod.Key) // which is shown there, or meetBaseline would know
		shown := (listed || !p.Ready) && is != nil && is.UID == pod.UID && s.absent[object{Pods, pod.Key}] == nil
		if !same && !shown && !p.HostNetwork {
			drop = append(drop, e)
		}
	}
	s.dropAll(drop, (*pods)(nil).cause(p, 0, "reused"), out)
}

// baselineSourceGone takes in that a Service was deleted.
func (s *State) baselineSourceGone(source syncer.Key, cause Cause, out *Effects) {
	var drop []*baselineEndpoint
	for _, r := range s.baseline.fedBy(source) {
		if !slices.ContainsFunc(r.sources, func(other syncer.Key) bool {
			return other != source && (s.store.Service(other) != nil || s.absent[object{Services, other}] != nil)
		}) {
			drop = append(drop, r.open()...)
		} else if !slices.ContainsFunc(r.sources, func(other syncer.Key) bool {
			return other != source && (s.store.IsManual(other) || s.store.Service(other) == nil)
		}) {
			for _, e := range r.open() {
				if _, named := e.pod(); !named { // nobody else can have written it
					drop = append(drop, e)
				}
			}
		}
		if cause.Event != "released" { // which is no proof
			r.sources = slices.DeleteFunc(slices.Clone(r.sources), func(other syncer.Key) bool { return other == source })
		}
	}
	s.dropAll(drop, cause, out)
}

// serviceShown drops what stands of replicas whose Services are all shown: their own
// share has it, or has not.
func (s *State) serviceShown(now time.Time, service syncer.Key, out *Effects) {
	var drop []*baselineEndpoint
	unjudged := false
	s.foundSource(service)
	for _, r := range s.baseline.fedBy(service) {
		if slices.Contains(r.publishing, service) && !s.store.Publishes(service) {
			s.unpublish(r, out)
		}
		if s.presence(r).pending {
			r.judged = false // what is written by hand is to be read first
			continue
		}
		unjudged = unjudged || !r.judged
		if s.lacksSource(r) {
			continue
		}
		manual := slices.ContainsFunc(r.sources, s.store.IsManual)
		for _, e := range r.open() {
			pod, named := e.pod()
			if named && r.judged && s.store.Pod(pod) != nil || !named && !manual {
				drop = append(drop, e)
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Service", Event: "relist", Key: service}, out)
	if s.synced && unjudged {
		s.judgeBaseline(now, out)
	}
}

// unpublish meets again the pods that were kept as published, where the Service of record
// does not publish any more.
func (s *State) unpublish(r *baselineReplica, out *Effects) {
	for _, e := range r.open() {
		if pod, named := e.pod(); named {
			if p := s.store.Pod(pod); p != nil {
				s.meetBaseline(p, out)
			}
		}
	}
}

// foundSource has nothing that stands wait for a Service any more that is there, though
// lists may lack it.
func (s *State) foundSource(service syncer.Key) {
	a := s.absent[object{Services, service}]
	if a == nil {
		return
	}
	for _, e := range a.baseline {
		e.waits = slices.DeleteFunc(e.waits, func(b *absence) bool { return b == a })
		e.in.judged = e.in.judged && len(e.waits) > 0
	}
	a.baseline = nil
}

// baselineManual drops endpoints that stand and that hand-written objects of their
// Services give by now.
func (s *State) baselineManual(out *Effects) {
	if !s.synced {
		return
	}
	var drop []*baselineEndpoint
	for _, r := range s.baseline.replicas {
		if !r.judged {
			continue
		}
		for _, source := range r.sources {
			if src, found := s.store.Source(source); !found || !src.Manual || !src.Known {
				continue
			}
			serves := s.store.ServesManual(source)
			for _, e := range r.open() {
				if serves(e.endpoint) {
					drop = append(drop, e)
				}
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Endpoints", Event: "relist"}, out)
}
