// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// damped puts pods that wait into an input as not ready.
func (s *State) damped(in *store.Input) {
	src := s.damping.waiting[in.Source()]
	if src == nil {
		return
	}
	in.Substitute(func(p *syncer.Pod) *syncer.Pod {
		d := src.pods[p.Name]
		if !d.waits() {
			return nil
		}
		waits := *p
		waits.Ready, waits.ReadySince = false, cmp.Or(d.down, p.ReadySince)
		return &waits
	})
}

// Wait is an endpoint that is ready and has not been for long enough.
type Wait struct {
	Since time.Time
	For   time.Duration
}

// waits are the pods of a Service that wait, by key.
func (s *State) waits(service syncer.Key) map[syncer.Key]Wait {
	src := s.damping.waiting[service]
	if src == nil {
		return nil
	}
	all := map[syncer.Key]Wait{}
	for name, d := range src.pods {
		if d.waits() {
			all[syncer.Key{Namespace: service.Namespace, Name: name}] = Wait{Since: d.since, For: src.StableFor}
		}
	}
	return all
}

// isDamped reports whether a pod waits for one of its Services.
func (s *State) isDamped(p *syncer.Pod) bool {
	return len(s.damping.waiting) > 0 && slices.ContainsFunc(s.store.Selecting(p), func(service syncer.Key) bool {
		src := s.damping.waiting[service]
		return src != nil && src.pods[p.Name].waits()
	})
}

// waitingIn counts the endpoints of a replica that wait, and those of them that lists lack.
func (s *State) waitingIn(replica syncer.Key) (all, lacking int) {
	if s.damping.total > 0 {
		for _, service := range s.store.Sources(replica) {
			n, lack := s.waitingOf(service)
			all, lacking = all+n, lacking+lack
		}
	}
	return all, lacking
}

func (s *State) waitingOf(service syncer.Key) (all, lacking int) {
	src := s.damping.waiting[service]
	if src == nil {
		return 0, 0
	}
	if len(s.absent) > 0 {
		for name, d := range src.pods {
			if a := s.absent[object{Pods, syncer.Key{Namespace: service.Namespace, Name: name}}]; d.waits() && a != nil && a.state != isThere {
				lacking++
			}
		}
	}
	return src.waiting, lacking
}

// Waiting counts the endpoints that wait; a pod behind two Services counts twice.
func (s *State) Waiting() int { return s.damping.total }
