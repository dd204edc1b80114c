// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// reportAlone asks whether endpoints may return to those of the replicas to which the
// member gives no ready one.
func (s *State) reportAlone(replicas map[syncer.Key]bool, out *Effects) {
	if len(s.damping.waiting) == 0 {
		return
	}
	for _, replica := range slices.SortedFunc(maps.Keys(replicas), syncer.Key.Compare) {
		if src, _ := s.longestReady(replica); src != nil && !s.GivesReady(replica) && !slices.Contains(out.Alone, replica) {
			out.Alone = append(out.Alone, replica)
		}
	}
}

// keepOne lets an endpoint return to a replica, if it would have none of this member still.
func (s *State) keepOne(now time.Time, replica syncer.Key, out *Effects) {
	if src, pod := s.longestReady(replica); src != nil && !s.GivesReady(replica) {
		s.rejudge(now, s.letReturn(src, pod, "keep_one", out), out)
	}
}

// longestReady is the endpoint that KeepOne would let return to a replica; nil if none.
func (s *State) longestReady(replica syncer.Key) (of *dampedSource, pod string) {
	var first *dampedPod
	for _, service := range s.store.Sources(replica) {
		src := s.damping.waiting[service]
		if src == nil || !src.KeepOne {
			continue
		}
		for name, d := range src.pods {
			if d.waits() && !s.keptReady(src, name) && (first == nil || cmp.Or(d.since.Compare(first.since), cmp.Compare(name, pod)) < 0) {
				first, of, pod = d, src, name
			}
		}
	}
	return of, pod
}

// Waits reports whether KeepOne would let an endpoint return to a replica.
func (s *State) Waits(replica syncer.Key) bool {
	src, _ := s.longestReady(replica)
	return src != nil
}

// GivesReady reports whether the member gives a ready endpoint to a replica, or one
// stands of it.
func (s *State) GivesReady(replica syncer.Key) bool {
	if r := s.baseline.replicas[replica]; r != nil && len(r.left) > 0 {
		return true
	}
	return s.synced && slices.ContainsFunc(s.store.Sources(replica), s.hasReady)
}

// hasReady reports whether a Service has a ready endpoint.
func (s *State) hasReady(service syncer.Key) bool {
	pods, effective := s.store.Selected(service)
	if effective == nil {
		is, _ := s.store.Source(service)
		return is.Ready > 0
	}
	src := s.damping.sources[service]
	for p := range pods {
		mayReturn := src == nil || takesPart(p) && !src.pods[p.Name].waits()
		if mayReturn && syncer.Explain(effective, p, s.cfg.Rules).Ready {
			return true
		}
	}
	return false
}
