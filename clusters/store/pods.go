// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// record is a pod as it is held. The Pod part is handed out by pointer and never
// changes: another version is another record. The rest is the store's and read
// and written under its lock only.
type record struct {
	syncer.Pod
	ip    [1]syncer.PodIP // room for the usual pod's address, in the same allocation
	group *group
	rv    uint64
	place int32  // in group.pods
	list  uint16 // that showed it last
	held  bool   // lists lack it, and it is kept nevertheless
}

// DeletePod takes in a deletion, of which p is the last state. Only key and
// revision count.
func (s *Store) DeletePod(p Versioned[syncer.Pod]) []Dirty {
	s.pods.remove(p.Object.Namespace, p.RV)
	return s.RemovePod(p.Object.Key)
}

// PodOutdated reports whether an event of a pod, its deletion or another, is older
// than what is known: nothing is taken from it, and Stats count it.
func (s *Store) PodOutdated(p Versioned[syncer.Pod]) bool {
	held, ok := s.PodRevision(p.Object.Key)
	stale := s.pods.stale(p.Object.Namespace, p.RV, ok, held)
	if stale {
		s.count.OutdatedPods++
	}
	return stale
}

// SetPod makes p the held version, whatever its revision, and returns the replicas whose
// contribution may have changed: none for a repetition, and for a change that the rules do
// not look at. A pod that was held is shown again by it.
func (s *Store) SetPod(p Versioned[syncer.Pod]) []Dirty {
	var d dirtyList
	if rec := s.record(p.Object.Key); rec != nil {
		s.keepFor(rec, nil, &d)
	}
	s.setPod(&p.Object, p.Kept, p.RV, &d)
	return d.sorted()
}

// ReplacePod takes in another reading of a pod as it was last seen: it keeps its
// revision, so that the next event is not taken for an old one, and stays held if it
// is. It does nothing if another pod of its name is there by now.
func (s *Store) ReplacePod(p *syncer.Pod) []Dirty {
	rec := s.record(p.Key)
	if rec == nil || rec.UID != p.UID {
		return nil
	}
	held, list := rec.held, rec.list
	var d dirtyList
	s.setPod(p, s.namespaces[p.Namespace].kept[p.Name], rec.rv, &d)
	s.record(p.Key).list = list // it is not shown by that
	if held {
		s.HoldPod(p.Key)
	}
	return d.sorted()
}

// RemovePod takes out a pod, if it is there. That tells nothing of others, as a deletion
// that a stream brings does.
func (s *Store) RemovePod(key syncer.Key) []Dirty {
	var d dirtyList
	if rec := s.record(key); rec != nil {
		s.removePod(rec, &d)
	}
	return d.sorted()
}

// HoldPod marks a pod as one that lists lack and that is kept: it goes on being an
// endpoint, until an event or a list shows it, or it is removed.
func (s *Store) HoldPod(key syncer.Key) {
	if rec := s.record(key); rec != nil && !rec.held {
		rec.held = true
		rec.group.held.add(&rec.Pod)
		s.count.HeldPods++
	}
}

// KeepPod has a pod that lists lack kept for some replicas alone, until it is shown: a
// Service that comes later does without it. One that is kept for none is removed.
func (s *Store) KeepPod(key syncer.Key, replicas []syncer.Key) []Dirty {
	rec := s.record(key)
	if rec == nil {
		return nil
	}
	s.HoldPod(key)
	var services []syncer.Key
	for _, svc := range s.namespaces[key.Namespace].matching(rec.group.labels) {
		if slices.Contains(replicas, svc.replica) {
			services = append(services, svc.current.Key)
		}
	}
	if len(services) == 0 {
		return s.RemovePod(key)
	}
	slices.SortFunc(services, syncer.Key.Compare)
	var d dirtyList
	s.keepFor(rec, services, &d)
	return d.sorted()
}

// keepFor moves a pod to the group that is kept for some Services; nil are all.
func (s *Store) keepFor(rec *record, services []syncer.Key, d *dirtyList) {
	from := rec.group
	if slices.Equal(from.keptFor, services) {
		return
	}
	before := slices.Clone(from.services)
	s.notePod(rec.Key, rec)
	held := rec.held
	s.confirmPod(rec)
	s.detach(s.namespaces[rec.Namespace], rec)
	s.insertRecord(s.namespaces[rec.Namespace], rec, from.labels, services)
	if held {
		s.HoldPod(rec.Key)
	}
	for _, svc := range before {
		if !slices.Contains(rec.group.services, svc) {
			s.noteService(svc)
			d.add(svc, syncer.PodEffect(svc.as(rec), nil))
			delete(svc.rulings, rec.Name)
		}
	}
	for _, svc := range rec.group.services {
		if !slices.Contains(before, svc) {
			s.noteService(svc)
			s.rule(svc, nil, rec, false)
			d.add(svc, syncer.PodEffect(nil, svc.as(rec)))
		}
	}
}

// setPod makes p the held version, whatever its revision.
func (s *Store) setPod(p *syncer.Pod, kept Kept, rv uint64, d *dirtyList) {
	old := s.record(p.Key)
	ns := s.namespaces[p.Namespace]
	if old != nil && s.confirmPod(old).Equal(p) {
		old.rv, old.list = rv, s.pods.list
		if ns.keep(old.Name, kept) {
			for _, svc := range old.group.services {
				s.rerule(svc, old, d)
			}
		}
		return
	}
	s.notePod(p.Key, old)
	if ns == nil {
		ns = newNamespace(p.Namespace)
		s.namespaces[ns.name] = ns
	}
	rec := s.newRecord(ns, p, rv, old)
	keptChanged := ns.keep(rec.Name, kept)
	if old != nil && syncer.EqualLabels(old.Labels, p.Labels) {
		s.replaceRecord(ns, old, rec, keptChanged, d)
		return
	}
	s.insertRecord(ns, rec, p.Labels, nil)
	rec.Labels = rec.group.labels
	s.noteChange(old, rec, d)
	if old == nil {
		s.count.Pods++
	} else {
		s.detach(ns, old)
		s.release(old)
	}
	ns.pods[rec.Name] = rec
}

// noteChange tells all Services of two versions of a pod with different labels,
// either of which may be missing.
func (s *Store) noteChange(old, rec *record, d *dirtyList) {
	if old != nil {
		for _, svc := range old.group.services {
			before := svc.as(old)
			if rec != nil && selects(svc.effective.Selector, rec.Labels) {
				s.rule(svc, old, rec, false)
				d.add(svc, syncer.PodEffect(before, svc.as(rec)))
			} else {
				delete(svc.rulings, old.Name)
				d.add(svc, syncer.PodEffect(before, nil))
			}
		}
	}
	if rec != nil {
		for _, svc := range rec.group.services {
			if old == nil || !selects(svc.effective.Selector, old.Labels) {
				s.rule(svc, nil, rec, false)
				d.add(svc, syncer.PodEffect(nil, svc.as(rec)))
			}
		}
	}
}

// replaceRecord puts a version in the place of one with the same labels.
func (s *Store) replaceRecord(ns *namespace, old, rec *record, keptChanged bool, d *dirtyList) {
	g := old.group
	rec.group, rec.place, rec.Labels = g, old.place, g.labels
	g.pods[rec.place] = rec
	g.podCounts.count(&old.Pod, -1)
	g.podCounts.count(&rec.Pod, 1)
	same := !keptChanged && old.UID == rec.UID && old.NodeName == rec.NodeName
	for _, svc := range g.services {
		before := svc.as(old)
		s.rule(svc, old, rec, same)
		d.add(svc, syncer.PodEffect(before, svc.as(rec)))
	}
	s.release(old)
	ns.pods[rec.Name] = rec
}

// removePod takes a pod out.
func (s *Store) removePod(rec *record, d *dirtyList) {
	ns := s.namespaces[rec.Namespace]
	s.notePod(rec.Key, rec)
	s.confirmPod(rec)
	s.noteChange(rec, nil, d)
	s.detach(ns, rec)
	s.release(rec)
	delete(ns.pods, rec.Name)
	delete(ns.kept, rec.Name)
	s.count.Pods--
	s.sweepNamespace(ns)
}

// confirmPod ends the holding of a pod, if it is held.
func (s *Store) confirmPod(rec *record) *record {
	if rec.held {
		rec.held = false
		rec.group.held.remove(&rec.Pod)
		s.count.HeldPods--
	}
	return rec
}

// newRecord copies a pod compactly: name and UID in one string, one address
// inside the record, and what others have as well shared with them.
func (s *Store) newRecord(ns *namespace, p *syncer.Pod, rv uint64, old *record) *record {
	rec := &record{Pod: *p, rv: rv, list: s.pods.list}
	rec.Namespace = ns.name
	if old != nil && old.UID == p.UID {
		rec.Name, rec.UID = old.Name, old.UID
	} else {
		both := p.Name + p.UID
		rec.Name, rec.UID = both[:len(p.Name)], both[len(p.Name):]
		if old != nil {
			delete(ns.pods, old.Name) // or the map keeps the old string as its key
		}
	}
	if rec.Hostname == rec.Name {
		rec.Hostname = rec.Name
	}
	if len(p.IPs) == 1 {
		rec.ip[0] = p.IPs[0]
		rec.IPs = rec.ip[:]
	} else {
		rec.IPs = slices.Clone(p.IPs)
	}
	rec.Ports = s.ports.acquire(p.Ports)
	rec.NodeName = s.nodes.acquire(p.NodeName)
	rec.Subdomain = s.strings.acquire(p.Subdomain)
	return rec
}

// release gives back what newRecord shared.
func (s *Store) release(rec *record) {
	s.ports.release(rec.Ports)
	s.nodes.release(rec.NodeName)
	s.strings.release(rec.Subdomain)
}

// insertRecord puts a record into the group of its labels that is kept for some Services.
func (s *Store) insertRecord(ns *namespace, rec *record, labels map[string]string, keptFor []syncer.Key) {
	hash := HashLabels(s.seed, labels)
	g := ns.find(hash, labels, keptFor)
	if g == nil {
		own := make(map[string]string, len(labels))
		for k, v := range labels {
			own[s.strings.acquire(k)] = s.strings.acquire(v)
		}
		g = &group{labels: own, hash: hash, keptFor: keptFor}
		ns.addGroup(g)
	}
	rec.group, rec.place = g, int32(len(g.pods))
	g.pods = append(g.pods, rec)
	g.podCounts.count(&rec.Pod, 1)
}

// detach takes a record out of its group, and the group away with its last pod.
func (s *Store) detach(ns *namespace, rec *record) {
	g := rec.group
	last := len(g.pods) - 1
	g.pods[rec.place] = g.pods[last]
	g.pods[rec.place].place = rec.place
	g.pods[last] = nil
	g.pods = g.pods[:last]
	g.podCounts.count(&rec.Pod, -1)
	if last == 0 {
		ns.removeGroup(g)
		for k, v := range g.labels {
			s.strings.release(k)
			s.strings.release(v)
		}
		return
	}
	if last < cap(g.pods)/4 {
		g.pods = slices.Clip(slices.Clone(g.pods))
	}
}

// sweepNamespace forgets a namespace in which nothing is left.
func (s *Store) sweepNamespace(ns *namespace) {
	if len(ns.pods) == 0 && len(ns.services) == 0 {
		delete(s.namespaces, ns.name)
	}
}
