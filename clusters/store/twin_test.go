// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// twin is the store without an index: maps, and everything computed anew.
type twin struct {
	pods      map[syncer.Key]syncer.Pod
	services  map[syncer.Key]syncer.Service
	endpoints map[syncer.Key]HandEndpoints
	slices    map[syncer.Key]HandSlice
	options   Options
}

func newTwin(o Options) *twin {
	return &twin{pods: map[syncer.Key]syncer.Pod{}, services: map[syncer.Key]syncer.Service{},
		endpoints: map[syncer.Key]HandEndpoints{}, slices: map[syncer.Key]HandSlice{}, options: o}
}

// setPod remembers of a pod whether it was ready, as long as it has its UID.
func (t *twin) setPod(p syncer.Pod) {
	old, had := t.pods[p.Key]
	p.WasReady = p.WasReady || had && old.UID == p.UID && (old.WasReady || old.Ready && !p.Ready || old.Ready && p.ReadySince > old.ReadySince)
	t.pods[p.Key] = p
}

func (t *twin) replicated(svc *syncer.Service) bool {
	return !svc.ExternalName && (t.options.Replicate == nil || t.options.Replicate(svc))
}

func (t *twin) handWritten(key syncer.Key) bool {
	svc, there := t.services[key]
	return there && svc.Selector == nil && t.replicated(&svc)
}

// forget drops Endpoints of Services that do not need them, and what nobody has written.
func (t *twin) forget() {
	maps.DeleteFunc(t.endpoints, func(key syncer.Key, _ HandEndpoints) bool { return !t.handWritten(key) })
	maps.DeleteFunc(t.slices, func(_ syncer.Key, s HandSlice) bool { return s.Derived })
}

// contributions computes everything.
func (t *twin) contributions(now time.Time) map[syncer.Key]syncer.Contribution {
	all := map[syncer.Key]syncer.Contribution{}
	for key, svc := range t.services {
		if t.replicated(&svc) {
			all[key] = t.contribution(svc, now)
		}
	}
	return all
}

func (t *twin) contribution(svc syncer.Service, now time.Time) syncer.Contribution {
	options := t.options.Syncer
	options.Now = now
	if t.options.Rules != nil {
		options.Rules = t.options.Rules(&svc)
	}
	if svc.Selector != nil {
		var pods []*syncer.Pod
		for _, p := range t.pods {
			if p.Namespace == svc.Namespace && p.Labels.Contains(syncer.LabelsOf(svc.Selector)) {
				pods = append(pods, &p)
			}
		}
		return syncer.Compute(&svc, slices.Values(pods), options)
	}
	written := t.endpoints[svc.Key]
	var list []syncer.Slice
	for _, key := range slices.SortedFunc(maps.Keys(t.slices), syncer.Key.Compare) {
		if s := t.slices[key]; s.ServiceKey() == svc.Key {
			list = append(list, s.Content)
		}
	}
	return syncer.HandWritten(&svc, written.Subsets, list, written.SkipMirror, options)
}

// graded lists what takes traffic, or could, in a contribution.
func graded(c *syncer.Contribution) map[string]bool {
	points := map[string]bool{}
	if c == nil {
		return points
	}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		if !e.Ready {
			continue
		}
		points[e.Addr.String()] = true
		for _, p := range e.Ports {
			points[e.Addr.String()+" "+p.String()] = true
		}
	}
	return points
}
