// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"reflect"

	"tributary.dev/tributary/syncer"
)

// service is a Service as it is stored.
type service struct {
	shape
	ns       *namespace
	revision uint64
	// groups and filed belong to the index, which has the Services that are replicated and
	// have a selector.
	groups  set[*group]
	filed   string
	trigger syncer.Trigger
	// replicated is true for a Service that has a replica; rules are those that apply to it.
	replicated bool
	rules      syncer.Rules
}

// shape is what a Service says. Its Labels and its Selector are nil: as those of pods, they are
// stored as texts.
type shape struct {
	syncer.Service
	labels, selector syncer.Labels
	selects          bool // it has a selector, which may be empty
}

// shapeOf brings a Service into the form in which it is stored.
func shapeOf(v *syncer.Service) shape {
	out := shape{*v, syncer.LabelsOf(v.Labels), syncer.LabelsOf(v.Selector), v.Selector != nil}
	out.Labels, out.Selector = nil, nil
	return out
}

// value is the Service as a value of its own.
func (a *shape) value() *syncer.Service {
	v := a.Service
	v.Labels, v.Selector = a.labels.Map(), a.selector.Map()
	if a.selects && v.Selector == nil {
		v.Selector = map[string]string{}
	}
	return &v
}

// traffic is as much of a shape as endpoints depend on, whatever the pods.
func (a shape) traffic() shape {
	a.Created, a.Annotations, a.labels = 0, nil, ""
	return a
}

// indexed reports whether the Service is in the index.
func (svc *service) indexed() bool { return svc.replicated && svc.selects }

// SetService stores a Service and returns its replica if that may have changed.
func (s *Store) SetService(v Versioned[syncer.Service]) []Dirty {
	ns := s.namespace(v.Object.Namespace)
	svc := ns.services[v.Object.Name]
	if svc == nil {
		return s.addService(ns, &v)
	}
	svc.revision = v.Revision
	now := shapeOf(&v.Object)
	if reflect.DeepEqual(svc.shape, now) {
		return nil
	}
	return s.changeService(svc, now)
}

func (s *Store) addService(ns *namespace, v *Versioned[syncer.Service]) []Dirty {
	svc := &service{shape: shapeOf(&v.Object), ns: ns, revision: v.Revision}
	ns.services[svc.Name] = svc
	s.place(svc)
	if !svc.replicated {
		return nil
	}
	return []Dirty{{svc.Key, syncer.Addition}}
}

// changeService replaces what the Service says.
func (s *Store) changeService(svc *service, now shape) []Dirty {
	was, rules, old := svc.replicated, svc.rules, svc.shape
	if now.selector != old.selector {
		svc.notePods(func(rec *record) int64 { return int64(rec.since) })
	}
	svc.displace()
	svc.shape = now
	if old.UID != svc.UID {
		svc.trigger = syncer.Trigger{}
	}
	svc.trigger.Changed()
	s.place(svc)
	if old.selector != svc.selector { // those that it did not select before are new
		svc.notePods(func(*record) int64 { return 0 })
	}
	if !was && !svc.replicated {
		return nil
	}
	effect := syncer.Removal
	if !was || svc.replicated && reflect.DeepEqual(old.traffic(), svc.traffic()) && reflect.DeepEqual(rules, svc.rules) {
		effect = syncer.Addition
	}
	return []Dirty{{svc.Key, effect}}
}

// notePods notes all pods that the Service selects, each as it was before.
func (svc *service) notePods(before func(*record) int64) {
	for _, g := range svc.groups {
		for _, rec := range g.pods {
			svc.trigger.Note(rec.name, before(rec))
		}
	}
}

// RemoveService removes a Service, if it exists.
func (s *Store) RemoveService(key syncer.Key) []Dirty {
	svc := s.service(key)
	if svc == nil {
		return nil
	}
	was := svc.replicated
	svc.displace()
	delete(s.endpoints, key)
	delete(svc.ns.services, key.Name)
	s.sweep(svc.ns)
	if !was {
		return nil
	}
	return []Dirty{{key, syncer.Removal}}
}

// place decides whether a Service is replicated, and enters it into the index if it belongs there.
func (s *Store) place(svc *service) {
	svc.displace()
	v := svc.value()
	svc.replicated = !v.ExternalName && (s.options.Replicate == nil || s.options.Replicate(v))
	svc.rules = syncer.Rules{}
	if s.options.Rules != nil && svc.replicated {
		svc.rules = s.options.Rules(v)
	}
	if svc.indexed() {
		svc.ns.index(svc)
	}
	if !svc.byHand() {
		delete(s.endpoints, svc.Key)
	}
}

// displace is the reverse of place, but for hand-written Endpoints: place drops them if the
// Service does not need them.
func (svc *service) displace() {
	if svc.indexed() {
		svc.ns.unindex(svc)
	}
	svc.replicated = false
}
