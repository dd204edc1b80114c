// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// twin is the store without an index: maps, and everything computed anew.
type twin struct {
	pods      map[syncer.Key]*twinPod
	services  map[syncer.Key]*twinService
	written   map[syncer.Key]*twinWritten
	zones     map[string]string
	placement Placement
	rules     syncer.Options
}

type twinPod struct {
	syncer.Pod
	held bool
	// keptFor are the Services that it is kept for; nil: all.
	keptFor map[syncer.Key]bool
}

type twinService struct {
	syncer.Service
	// waiting is the selector that a Service without one is still served by.
	waiting map[string]string
	held    bool
}

type twinWritten struct {
	endpoints    *Endpoints
	slices       map[string]Slice
	hasEndpoints bool
	hasSlices    bool
}

func (w *twinWritten) known() bool { return w != nil && w.hasEndpoints && w.hasSlices }

func newTwin(p Placement) *twin {
	return &twin{
		pods: map[syncer.Key]*twinPod{}, services: map[syncer.Key]*twinService{},
		written: map[syncer.Key]*twinWritten{}, zones: map[string]string{}, placement: p,
	}
}

func (t *twin) setPod(p syncer.Pod) { t.pods[p.Key] = &twinPod{Pod: p} }

func (t *twin) setService(svc syncer.Service) {
	old, next := t.services[svc.Key], &twinService{Service: svc}
	lost := svc.Selector == nil && !svc.ExternalName && !t.written[svc.Key].known()
	if old != nil && lost {
		next.waiting = old.Selector
		if old.Selector == nil {
			next.waiting = old.waiting
		}
	}
	t.services[svc.Key] = next
}

// writing returns what is written for a Service, to be changed. Of one that does not need
// it nothing is kept.
func (t *twin) writing(key syncer.Key) *twinWritten {
	if !t.manual(key) {
		return &twinWritten{slices: map[string]Slice{}}
	}
	if t.written[key] == nil {
		t.written[key] = &twinWritten{slices: map[string]Slice{}}
	}
	return t.written[key]
}

func (t *twin) manual(key syncer.Key) bool {
	svc := t.services[key]
	if svc == nil || svc.Selector != nil || svc.ExternalName {
		return false
	}
	_, placed := t.placement(&svc.Service)
	return placed
}

// forget drops what is written for Services that do not need it.
func (t *twin) forget() {
	maps.DeleteFunc(t.written, func(key syncer.Key, _ *twinWritten) bool { return !t.manual(key) })
}

// noteKnown ends the waiting of a Service whose hand-written endpoints are known.
func (t *twin) noteKnown(key syncer.Key) {
	if svc := t.services[key]; svc != nil && t.written[key].known() {
		svc.waiting = nil
	}
}

func (svc *twinService) effective() syncer.Service {
	effective := svc.Service
	if effective.Selector == nil {
		effective.Selector = svc.waiting
	}
	return effective
}

func (svc *twinService) selects(p *syncer.Pod) bool {
	effective := svc.effective()
	return effective.Selector != nil && p.Namespace == svc.Namespace && selects(effective.Selector, p.Labels)
}

// contributions computes everything.
func (t *twin) contributions() map[syncer.Key][]SourceContribution {
	all := map[syncer.Key][]SourceContribution{}
	for key, svc := range t.services {
		if svc.ExternalName {
			continue
		}
		if replica, ok := t.placement(&svc.Service); ok {
			all[replica] = append(all[replica], t.contribution(key, svc))
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b SourceContribution) int { return a.Source.Compare(b.Source) })
	}
	return all
}

func (t *twin) contribution(key syncer.Key, svc *twinService) SourceContribution {
	rules := t.rules
	if len(t.zones) > 0 {
		rules.Zone = func(node string) string { return t.zones[node] }
	}
	effective := svc.effective()
	out := SourceContribution{Source: key}
	switch w := t.written[key]; {
	case effective.Selector != nil:
		var pods []*syncer.Pod
		for _, p := range t.pods {
			if svc.selects(&p.Pod) && (p.keptFor == nil || p.keptFor[key]) {
				pods = append(pods, &p.Pod)
			}
		}
		out.Contribution = syncer.Compute(&effective, slices.Values(pods), rules)
	case w.known():
		var content Endpoints
		if w.endpoints != nil {
			content = *w.endpoints
		}
		var list []syncer.Slice
		for _, name := range slices.Sorted(maps.Keys(w.slices)) {
			if !w.slices[name].Derived {
				list = append(list, w.slices[name].Content)
			}
		}
		out.Contribution = syncer.HandWritten(&svc.Service, content.Subsets, list, content.SkipMirror, rules)
	default:
		out.Pending = true
	}
	out.Contribution.Service = new(svc.Service)
	return out
}

// serving lists what takes traffic in a contribution.
func serving(c *SourceContribution) map[string]bool {
	points := map[string]bool{}
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

func sortDirty(a, b Dirty) int {
	return cmp.Or(cmp.Compare(b.Effect, a.Effect), a.Replica.Compare(b.Replica), a.Source.Compare(b.Source))
}
