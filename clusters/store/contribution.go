// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"iter"
	"slices"
	"strings"
	"time"

	"tributary.dev/tributary/internal/uid"
	"tributary.dev/tributary/syncer"
)

// Contribution returns what the member contributes to a replica at a moment by the member's
// clock; ok is false where no such Service is replicated.
func (s *Store) Contribution(replica syncer.Key, now time.Time) (c syncer.Contribution, ok bool) {
	svc := s.replica(replica)
	if svc == nil {
		return c, false
	}
	c = s.compute(svc, now)
	if svc.selects {
		c.Trigger = svc.trigger.Time(c.Service, func(name string) int64 {
			rec := svc.ns.pods[name]
			if rec == nil || !slices.Contains(rec.group.services, svc) {
				return 0
			}
			return int64(rec.since)
		})
	}
	return c, true
}

// compute is Contribution without the trigger's time, so that it has no side effect.
func (s *Store) compute(svc *service, now time.Time) syncer.Contribution {
	v, options := svc.value(), s.optionsOf(svc, now)
	if svc.selects {
		return syncer.Compute(v, pointers(svc.pods()), options)
	}
	written, list := s.written(svc.Key)
	return syncer.HandWritten(v, written.Subsets, list, written.SkipMirror, options)
}

// ByUpstream is what upstream's rules alone make of a replica's Service and its pods, as the member
// shows them; nil where no such Service is replicated.
func (s *Store) ByUpstream(replica syncer.Key) *syncer.Contribution {
	svc := s.replica(replica)
	if svc == nil {
		return nil
	}
	pods := svc.pods()
	for i := range pods {
		pods[i].NodeSilent, pods[i].WasReady, pods[i].Matches = false, false, 0
	}
	return new(syncer.Compute(svc.value(), pointers(pods), syncer.Options{}))
}

// optionsOf are the settings for one Service at a moment.
func (s *Store) optionsOf(svc *service, now time.Time) syncer.Options {
	o := s.options.Syncer
	o.Rules, o.Now = svc.rules, now
	return o
}

// pods are the pods that an indexed Service selects, in no order. They share their memory.
func (svc *service) pods() []syncer.Pod {
	n := 0
	for _, g := range svc.groups {
		n += len(g.pods)
	}
	pods, ips := make([]syncer.Pod, 0, n), make([][1]syncer.PodIP, n)
	var uids strings.Builder
	uids.Grow(n * uid.Length)
	ends := make([]int32, 0, n)
	var room [2 * uid.Length]byte
	for _, g := range svc.groups {
		for _, rec := range g.pods {
			pods = append(pods, rec.view(&ips[len(pods)]))
			uids.Write(rec.appendUID(room[:0]))
			ends = append(ends, int32(uids.Len()))
		}
	}
	text, begin := uids.String(), int32(0)
	for i, end := range ends {
		pods[i].UID, begin = text[begin:end], end
	}
	return pods
}

func pointers(pods []syncer.Pod) iter.Seq[*syncer.Pod] {
	return func(yield func(*syncer.Pod) bool) {
		for i := range pods {
			if !yield(&pods[i]) {
				return
			}
		}
	}
}

// Explain returns a Service, nil where it is not known, and what becomes of each pod that it
// selects at a moment by the member's clock, by name: of none if it is not replicated.
func (s *Store) Explain(key syncer.Key, now time.Time) (*syncer.Service, []syncer.Verdict) {
	svc := s.service(key)
	if svc == nil {
		return nil, nil
	}
	v, options := svc.value(), s.optionsOf(svc, now)
	var verdicts []syncer.Verdict
	for _, p := range svc.pods() {
		verdicts = append(verdicts, syncer.Explain(v, &p, options))
	}
	slices.SortFunc(verdicts, func(a, b syncer.Verdict) int { return a.Key.Compare(b.Key) })
	return v, verdicts
}
