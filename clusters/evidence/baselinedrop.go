// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"net/netip"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// dropBaseline takes an endpoint from what stands.
func (s *State) dropBaseline(e *baselineEndpoint) []store.Dirty {
	if e.dropped {
		return nil
	}
	e.dropped = true
	if n := e.in.left[e.counted()] - 1; n > 0 {
		e.in.left[e.counted()] = n
	} else {
		delete(e.in.left, e.counted())
	}
	for _, a := range e.waits {
		if a.baseline = without(a.baseline, e); len(a.baseline) == 0 && a.held == 0 {
			s.reappeared(a.id) // there is nothing to ask for any more, but of what a list lacks again
		}
	}
	e.waits = nil
	st := &s.baseline
	if pod, named := e.pod(); named {
		if takeFrom(st.byPod, pod, e); st.byPod[pod] == nil && s.store.Pod(pod) == nil {
			s.readiness.gone(pod) // what it said counted as long as it stood
		}
		takeFrom(st.byAddr, e.endpoint.Addr, e)
	}
	if e.in.judged && len(e.in.left) == 0 {
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
		ready := !taken.Terminating() && taken.Ready || s.published(e) ||
			!taken.Terminating() && s.ruledReady(e, p.Key)
		if same && !ready {
			s.damping.fell(e)
		}
		if !same || !ready || s.isJudged(e) && (!s.lacksSource(e.sources()) || s.gives(e)) {
			drop = append(drop, e)
		}
	}
	s.dropAll(drop, (*pods)(nil).cause(p, 0, "relist"), out)
}

// isJudged reports whether an endpoint was compared with what the member shows, or can be,
// though others of its replica cannot.
func (s *State) isJudged(e *baselineEndpoint) bool {
	if e.in.judged || !s.synced {
		return e.in.judged
	}
	views := s.views(e.in)
	return views("").pending && !views(e.namespace()).pending
}

// ruledReady reports whether rules make a pod that stands ready, or may, as far as what they
// read is not known.
func (s *State) ruledReady(e *baselineEndpoint, pod syncer.Key) bool {
	d := s.cfg.Decider
	if d == nil || !d.Readies() {
		return false
	}
	return d.ReadsService() && s.lacksSource(e.sources()) || d.ReadsNode() && !s.listed[Nodes] || s.store.MakesReady(d, pod, e.sources())
}

// published reports whether a pod that stands is taken for ready whatever it says: as its
// Services have it, or while one is not known the record.
func (s *State) published(e *baselineEndpoint) bool {
	return slices.ContainsFunc(e.sources(), func(source syncer.Key) bool {
		if s.store.Service(source) == nil {
			return slices.Contains(e.in.publishing, source)
		}
		return s.store.Publishes(source)
	})
}

// lacksSourceOf reports whether a Service may be absent that a pod stood for as it turned.
func (s *State) lacksSourceOf(d *downPod) bool {
	return slices.ContainsFunc(d.stood, func(r *baselineReplica) bool {
		return s.lacksSource(sourcesIn(d.reported.Object.Namespace, r.sources))
	})
}

// lacksSource reports whether one of the Services that fed a replica is absent.
func (s *State) lacksSource(sources []syncer.Key) bool {
	return slices.ContainsFunc(sources, func(source syncer.Key) bool {
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
		for _, e := range r.open() {
			_, named := e.pod()
			others := without(slices.Clone(e.sources()), source)
			mayGive := slices.ContainsFunc(others, s.mayBeThere)
			if mayGive && !named { // or nobody else can have written it
				mayGive = slices.ContainsFunc(others, func(other syncer.Key) bool { return s.store.IsManual(other) || s.store.Service(other) == nil })
			}
			if !mayGive && slices.Contains(e.sources(), source) {
				drop = append(drop, e)
			}
		}
		if cause.Event != "released" { // which is no proof
			r.sources = without(slices.Clone(r.sources), source)
		}
	}
	s.dropAll(drop, cause, out)
}

// mayBeThere reports whether a Service is there, for all that is known.
func (s *State) mayBeThere(service syncer.Key) bool {
	return s.store.Service(service) != nil || s.absent[object{Services, service}] != nil || s.leftOut.unlisted[Services][service.Namespace]
}

// serviceShown drops what stands of replicas whose Services are all shown: their own
// share has it, or has not.
func (s *State) serviceShown(now time.Time, service syncer.Key, out *Effects) {
	var drop []*baselineEndpoint
	unjudged := false
	s.foundSource(service)
	for _, r := range s.baseline.fedBy(service) {
		if !s.synced && s.cfg.Decider != nil || slices.Contains(r.publishing, service) && !s.store.Publishes(service) {
			s.meetAgain(r, out)
		}
		if !s.synced {
			continue // nothing is judged yet
		}
		views := s.views(r)
		pending := views("").pending
		r.judged = r.judged && !pending // what is written by hand is to be read first
		unjudged = unjudged || !r.judged && !pending
		manual := slices.ContainsFunc(r.sources, s.store.IsManual)
		for _, e := range r.open() {
			pod, named := e.pod()
			lacks, judged := s.lacksSource(e.sources()), r.judged || pending && !views(e.namespace()).pending
			if named && judged && s.store.Pod(pod) != nil && (!lacks || s.gives(e)) || !named && !pending && !lacks && !manual {
				drop = append(drop, e)
			}
		}
	}
	s.dropAll(drop, Cause{Kind: "Service", Event: "relist", Key: service}, out)
	if unjudged {
		s.judgeBaseline(now, out)
	}
}

// meetAgain meets again the pods that were kept because a Service might take them for ready,
// or rules: it is known now.
func (s *State) meetAgain(r *baselineReplica, out *Effects) {
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
		e.waits = without(e.waits, a)
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
