// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// startDamping begins with what the member shows when it has been read whole, before
// what stands is judged by it.
func (s *State) startDamping(now time.Time) {
	s.damping.on = true
	s.recallAll(now, func(string) bool { return true })
	s.forgetStood()
	s.store.NotePods(len(s.damping.sources) > 0)
	s.store.Touched()
}

// recallAll begins with the Services of some namespaces.
func (s *State) recallAll(now time.Time, of func(namespace string) bool) {
	for _, replica := range s.store.Replicas() {
		for _, service := range s.store.Sources(replica) {
			if of(service.Namespace) {
				s.recall(now, service, replica)
			}
		}
	}
}

// recall begins with the pods of a Service, as they are shown now.
func (s *State) recall(now time.Time, service, replica syncer.Key) {
	src := s.sourceOf(service)
	if src == nil {
		return
	}
	d := &s.damping
	clock := d.clock
	if s.cfg.Decider != nil {
		clock = memberClock{}
	}
	isReady := func(p *syncer.Pod) time.Duration { return clock.since(now, p.ReadySince, d.written[p.UID]) }
	for name := range src.pods { // that a piece of the list has shown
		src.forget(name)
	}
	stood := map[string]bool{}
	for _, e := range d.stood[replica].Endpoints {
		stood[e.Target.UID] = true
	}
	pods, _ := s.store.Selected(service)
	for p := range pods {
		src.recall(now, p, stood[p.UID], s.standsReady(p, replica), isReady)
	}
	d.sort(src)
}

// recallPods does so where a list is the first to show the pods of a namespace, before what
// stands is judged by it; recallService where the Services of one are shown last.
func (s *State) recallPods(now time.Time) {
	if shown := s.firstShown(Pods); s.damping.on && len(shown) > 0 {
		s.recallAll(now, func(namespace string) bool { return shown[namespace] })
	}
}

func (s *State) recallService(now time.Time, service syncer.Key) {
	if replica, placed := s.store.Placed(service); placed && s.damping.on && s.damping.sources[service] == nil && s.leftOut.unlisted[Services][service.Namespace] {
		s.recall(now, service, replica)
	}
}

// forgetStood forgets what stood, but of replicas that wait for a namespace that no list has shown.
func (s *State) forgetStood() {
	d := &s.damping
	stood := map[syncer.Key]Standing{}
	for replica, standing := range d.stood {
		if slices.ContainsFunc(standing.Sources, func(source syncer.Key) bool { return s.isUnlisted(source.Namespace) }) {
			stood[replica] = standing
		}
	}
	if d.stood = stood; len(stood) == 0 {
		d.stood, d.written = nil, nil
	}
}

// begin takes in what stands at the start.
func (d *damping) begin(stood map[syncer.Key]Standing) {
	d.stood, d.written = stood, map[string]int64{}
	for _, standing := range stood {
		for i := range standing.Endpoints {
			if e := &standing.Endpoints[i]; !e.Ready {
				d.written[e.Target.UID] = 0
			}
		}
	}
}

func (d *damping) noteWritten(v *podVersion) {
	if _, stood := d.written[v.Object.UID]; stood {
		d.written[v.Object.UID] = v.Written
	}
}

// recall takes in a pod as the first lists show it: whether it stood at the start, whether
// it stands ready, and for how long it has been ready at least. What nobody can tell does
// not count: where there are rules, one of them may have let the pod go just now.
func (src *dampedSource) recall(now time.Time, p *syncer.Pod, stood, ready bool, readyFor func(*syncer.Pod) time.Duration) {
	if !takesPart(p) {
		src.see(now, p, stood)
		return
	}
	if !stood || ready {
		return
	}
	if isReady := readyFor(p); isReady < src.StableFor {
		d := &dampedPod{uid: p.UID}
		src.pods[p.Name] = d
		src.wait(d, now.Add(-isReady), p)
	}
}

// memberClock is what a member's clock is against ours. The zero value is not known.
type memberClock struct {
	known bool
	// behind is how far it is behind at most; negative is ahead.
	behind time.Duration
}

func (c *memberClock) set(now, said time.Time) {
	if !said.IsZero() {
		*c = memberClock{true, now.Sub(said)}
	}
}

// since is for how long a pod has been ready at least; 0 where that is not known. The
// transition time alone may be too old: a kubelet may write back that from before a node
// controller's mark, and a node's clock may be behind. But the turn was a change of the pod,
// and of that the API server has the time.
func (c memberClock) since(now time.Time, transition, written int64) time.Duration {
	if !c.known || transition == 0 || written == 0 {
		return 0
	}
	return max(0, now.Add(-c.behind).Sub(time.Unix(max(transition, written)+1, 0)))
}

// mayHaveWaited reports whether a pod may have waited to be stable when what stands was
// written.
func (s *State) mayHaveWaited(now time.Time, p *syncer.Pod) bool {
	isReady := s.damping.clock.since(now, p.ReadySince, s.damping.written[p.UID])
	return slices.ContainsFunc(s.store.Selecting(p), func(service syncer.Key) bool { return isReady < s.settings(service).StableFor })
}

func (s *State) standsReady(p *syncer.Pod, replica syncer.Key) bool {
	return slices.ContainsFunc(s.baseline.byPod[p.Key], func(e *baselineEndpoint) bool {
		return !e.dropped && e.in.key == replica && e.endpoint.Target.UID == p.UID && store.HasAddress(p, e.endpoint.Addr)
	})
}
