// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"

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
	// replicated is true for a Service that has a replica; rules are those that apply to it,
	// nil where none does.
	replicated bool
	rules      *syncer.Rules
}

// shape is what a Service says.
type shape struct {
	name        string
	uid         string
	clusterIP   string
	created     int64
	labels      syncer.Labels
	selector    syncer.Labels
	annotations map[string]string
	spec        *entry[spec]
}

// key names the Service, and its replica.
func (svc *service) key() syncer.Key { return syncer.Key{Namespace: svc.ns.name, Name: svc.name} }

// theirs are the rules that apply to the Service.
func (svc *service) theirs() syncer.Rules {
	if svc.rules == nil {
		return syncer.Rules{}
	}
	return *svc.rules
}

// computed reports whether endpoints come from pods rather than by hand.
func (svc *service) computed() bool { return svc.spec.value.selects }

// indexed reports whether the Service is in the index.
func (svc *service) indexed() bool { return svc.replicated && svc.computed() }

// value is the Service as a value of its own.
func (svc *service) value() *syncer.Service {
	v := &syncer.Service{
		Key: svc.key(), UID: svc.uid, Created: svc.created, Labels: svc.labels.Map(),
		Annotations: maps.Clone(svc.annotations), Selector: svc.selector.Map(), ClusterIP: svc.clusterIP,
		IPFamilies: svc.spec.value.families, Ports: svc.spec.value.ports,
		PublishNotReadyAddresses: svc.spec.value.publish, ExternalName: svc.spec.value.external,
	}
	if svc.computed() && v.Selector == nil {
		v.Selector = map[string]string{}
	}
	return v
}

// shapeOf brings a Service into the form in which it is stored. It acquires the spec.
func (s *Store) shapeOf(v *syncer.Service) shape {
	text := v.Name + v.UID + v.ClusterIP
	ip := len(v.Name) + len(v.UID)
	var room [512]byte
	return shape{
		name: text[:len(v.Name)], uid: text[len(v.Name):ip], clusterIP: text[ip:],
		created: v.Created, labels: syncer.LabelsOf(v.Labels), selector: syncer.LabelsOf(v.Selector),
		annotations: maps.Clone(v.Annotations),
		spec:        s.specs.acquire(appendSpec(room[:0], v), func() spec { return specOf(v) }),
	}
}

func specOf(v *syncer.Service) spec {
	return spec{
		families: slices.Clone(v.IPFamilies), ports: slices.Clone(v.Ports),
		publish: v.PublishNotReadyAddresses, external: v.ExternalName, selects: v.Selector != nil,
	}
}

// sameTraffic reports whether no endpoint can differ between two shapes of a Service,
// whatever its pods.
func (a *shape) sameTraffic(b *shape) bool {
	return a.uid == b.uid && a.clusterIP == b.clusterIP && a.selector == b.selector && a.spec == b.spec
}

func (a *shape) equal(b *shape) bool {
	return a.sameTraffic(b) && a.created == b.created && a.labels == b.labels && maps.Equal(a.annotations, b.annotations)
}

func sameRules(a, b syncer.Rules) bool { return a.Applies == b.Applies && slices.Equal(a.Then, b.Then) }

// SetService stores a Service and returns its replica if that may have changed.
func (s *Store) SetService(v Versioned[syncer.Service]) []Dirty {
	ns := s.namespace(v.Object.Namespace)
	svc := ns.services[v.Object.Name]
	if svc == nil {
		return s.addService(ns, &v)
	}
	svc.revision = v.Revision
	now := s.shapeOf(&v.Object)
	if svc.equal(&now) {
		s.specs.release(now.spec)
		return nil
	}
	return s.changeService(svc, now)
}

func (s *Store) addService(ns *namespace, v *Versioned[syncer.Service]) []Dirty {
	svc := &service{shape: s.shapeOf(&v.Object), ns: ns, revision: v.Revision}
	ns.services[svc.name] = svc
	s.place(svc)
	if !svc.replicated {
		return nil
	}
	return []Dirty{{svc.key(), syncer.Addition}}
}

// changeService replaces what the Service says.
func (s *Store) changeService(svc *service, now shape) []Dirty {
	was, rules, old := svc.replicated, svc.theirs(), svc.shape
	if now.selector != old.selector {
		svc.notePods(func(rec *record) int64 { return int64(rec.since) })
	}
	svc.displace()
	svc.shape = now
	s.specs.release(old.spec)
	delete(svc.ns.services, old.name) // or the map retains the old string
	svc.ns.services[svc.name] = svc
	if old.uid != svc.uid {
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
	if !was || svc.replicated && old.sameTraffic(&svc.shape) && sameRules(rules, svc.theirs()) {
		effect = syncer.Addition
	}
	return []Dirty{{svc.key(), effect}}
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
	s.specs.release(svc.spec)
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
	svc.rules = nil
	if s.options.Rules != nil && svc.replicated {
		if rules := s.options.Rules(v); rules.Applies != 0 {
			svc.rules = &rules
		}
	}
	if svc.indexed() {
		svc.ns.index(svc)
	}
	if !svc.byHand() {
		delete(s.endpoints, svc.key())
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
