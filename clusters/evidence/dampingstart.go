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
	d := &s.damping
	d.on = true
	clock := d.clock
	if s.cfg.Decider != nil {
		clock = memberClock{}
	}
	for _, replica := range s.store.Replicas() {
		for _, service := range s.store.Sources(replica) {
			src := s.sourceOf(service)
			if src == nil {
				continue
			}
			pods, _ := s.store.Selected(service)
			stood := map[string]bool{}
			for _, e := range d.stood[replica].Endpoints {
				stood[e.Target.UID] = true
			}
			for p := range pods {
				src.recall(now, clock, p, stood[p.UID], s.standsReady(p, replica))
			}
			d.sort(src)
		}
	}
	d.stood = nil
	s.store.NotePods(len(d.sources) > 0)
	s.store.Touched()
}

// recall takes in a pod as the first lists show it: whether it stood at the start, and
// whether it stands ready. What nobody can tell does not count: the time that a member's
// clock gives is as old as it says by that clock, and where there are rules one of them may
// have let the pod go just now.
func (src *dampedSource) recall(now time.Time, clock memberClock, p *syncer.Pod, stood, ready bool) {
	if !takesPart(p) {
		src.see(now, p, stood)
		return
	}
	if !stood || ready {
		return
	}
	if isReady := clock.since(now, p.ReadySince); isReady < src.StableFor {
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

// since is how long ago a second of that clock was at least; 0 where that is not known.
func (c memberClock) since(now time.Time, second int64) time.Duration {
	if !c.known || second == 0 {
		return 0
	}
	return max(0, now.Add(-c.behind).Sub(time.Unix(second+1, 0)))
}

func (s *State) standsReady(p *syncer.Pod, replica syncer.Key) bool {
	return slices.ContainsFunc(s.baseline.byPod[p.Key], func(e *baselineEndpoint) bool {
		return !e.dropped && e.in.key == replica && e.endpoint.Target.UID == p.UID && store.HasAddress(p, e.endpoint.Addr)
	})
}
