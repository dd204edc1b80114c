// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "tributary.dev/tributary/syncer"

// SetPod stores a pod and returns the replicas whose contribution may have changed: none for a
// repetition, and for a change that the rules do not look at. It remembers whether the pod was
// ready before, as long as the UID is the same, in addition to what the caller says.
func (s *Store) SetPod(v Versioned[syncer.Pod]) []Dirty {
	p := &v.Object
	ns := s.namespace(p.Namespace)
	rec := ns.pods[p.Name]
	if rec == nil {
		return s.addPod(ns, p, v.Revision)
	}
	rec.revision = v.Revision
	var ip [1]syncer.PodIP
	old := rec.view(&ip)
	same := rec.hasUID(p.UID)
	if same {
		old.UID = p.UID
		p.WasReady = p.WasReady || old.WasReady || old.Ready && (!p.Ready || p.ReadySince > old.ReadySince)
	} else {
		old.UID = string(rec.appendUID(nil))
	}
	if old.Equal(p) {
		return nil
	}
	return s.changePod(ns, rec, &old, p)
}

func (s *Store) addPod(ns *namespace, p *syncer.Pod, revision uint64) []Dirty {
	rec := &record{name: p.Name, revision: revision}
	s.fill(rec, p)
	ns.pods[rec.name] = rec
	ns.join(rec, p.Labels)
	var dirty []Dirty
	for _, svc := range rec.group.services {
		svc.trigger.Note(rec.name, 0)
		dirty = affected(dirty, svc, syncer.PodEffect(nil, p, svc.rules))
	}
	return dirty
}

// changePod replaces the stored version, old, by p, which differs from it.
func (s *Store) changePod(ns *namespace, rec *record, old, p *syncer.Pod) []Dirty {
	before := rec.group
	s.fill(rec, p)
	if p.Labels != old.Labels {
		rec.group.pods.remove(rec)
		ns.join(rec, p.Labels)
	}
	var dirty []Dirty
	for _, svc := range before.services {
		now := p
		if rec.group != before && !p.Labels.Contains(svc.selector) {
			now = nil
		}
		svc.trigger.Note(rec.name, old.ReadySince)
		dirty = affected(dirty, svc, syncer.PodEffect(old, now, svc.rules))
	}
	if rec.group != before {
		for _, svc := range rec.group.services {
			if !old.Labels.Contains(svc.selector) {
				svc.trigger.Note(rec.name, 0)
				dirty = affected(dirty, svc, syncer.PodEffect(nil, p, svc.rules))
			}
		}
		ns.sweepGroup(before)
	}
	return dirty
}

// RemovePod removes a pod, if it exists.
func (s *Store) RemovePod(key syncer.Key) []Dirty {
	rec := s.record(key)
	if rec == nil {
		return nil
	}
	ns, group, old := rec.group.ns, rec.group, rec.pod()
	rec.group.pods.remove(rec)
	delete(ns.pods, rec.name)
	s.templates.release(rec.template)
	var dirty []Dirty
	for _, svc := range group.services {
		svc.trigger.Note(rec.name, int64(rec.since))
		dirty = affected(dirty, svc, syncer.PodEffect(old, nil, svc.rules))
	}
	ns.sweepGroup(group)
	s.sweep(ns)
	return dirty
}

// affected adds a Service that selects a pod to those on which a change has an effect.
func affected(list []Dirty, svc *service, effect syncer.Effect) []Dirty {
	if effect == syncer.None {
		return list
	}
	return append(list, Dirty{svc.Key, effect})
}

// fill copies a pod into a record, but for its labels.
func (s *Store) fill(rec *record, p *syncer.Pod) {
	former := rec.template
	rec.fill(p)
	rec.template = s.templates.acquire(p)
	if former != nil {
		s.templates.release(former)
	}
}
