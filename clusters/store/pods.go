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
	place int32 // in group.pods
	held  bool  // absent from the last list and kept nevertheless
}

// UpsertPod takes in a pod of a watch event and returns the replicas whose
// contribution may have changed: none for a repetition, for an event older than
// what is held, and for a change that the rules do not look at. The event
// confirms a pod that was held (see PodReplacement).
func (s *Store) UpsertPod(p Versioned[syncer.Pod]) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ignoredPod(p) {
		return nil
	}
	var d dirtyList
	s.setPod(&p.Object, p.RV, &d)
	return d.sorted()
}

// DeletePod takes in a deletion, of which p is the last state. Only key and
// revision count.
func (s *Store) DeletePod(p Versioned[syncer.Pod]) []Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ignoredPod(p) {
		return nil
	}
	s.podSequence.deleted(p.RV)
	var d dirtyList
	if rec := s.record(p.Object.Key); rec != nil {
		s.removePod(rec, &d)
	}
	return d.sorted()
}

// PodOutdated reports whether an event of a pod, its deletion or another, is older
// than what is known: nothing is taken from it. It is for whoever keeps books of his
// own about the events that are taken, and lets nothing come in between.
func (s *Store) PodOutdated(p Versioned[syncer.Pod]) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stalePod(p.Object.Key, p.RV)
}

// ignoredPod counts an event of which nothing is taken.
func (s *Store) ignoredPod(p Versioned[syncer.Pod]) bool {
	stale := s.stalePod(p.Object.Key, p.RV)
	if stale {
		s.count.outdatedPods++
	}
	return stale
}

func (s *Store) stalePod(key syncer.Key, rv uint64) bool {
	rec := s.record(key)
	return rec == nil && s.podSequence.stale(rv, false, 0) || rec != nil && s.podSequence.stale(rv, true, rec.rv)
}

// setPod makes p the held version, whatever its revision.
func (s *Store) setPod(p *syncer.Pod, rv uint64, d *dirtyList) {
	old := s.record(p.Key)
	if old != nil && s.confirmPod(old).Equal(p) {
		old.rv = rv
		return
	}
	ns := s.namespaces[p.Namespace]
	if ns == nil {
		ns = newNamespace(p.Namespace)
		s.namespaces[ns.name] = ns
	}
	rec := s.newRecord(ns, p, rv, old)
	if old != nil && syncer.EqualLabels(old.Labels, p.Labels) {
		s.replaceRecord(ns, old, rec, d)
		return
	}
	s.insertRecord(ns, rec, p.Labels)
	noteChange(old, rec, d)
	if old == nil {
		s.count.pods++
	} else {
		s.detach(ns, old)
		s.release(old)
	}
	ns.pods[rec.Name] = rec
}

// noteChange tells all Services of two versions of a pod with different labels,
// either of which may be missing.
func noteChange(old, rec *record, d *dirtyList) {
	if old != nil {
		for _, svc := range old.group.services {
			if rec != nil && selects(svc.basis.Selector, rec.Labels) {
				d.add(svc, podEffect(old, rec))
			} else {
				d.add(svc, podEffect(old, nil))
			}
		}
	}
	if rec != nil {
		for _, svc := range rec.group.services {
			if old == nil || !selects(svc.basis.Selector, old.Labels) {
				d.add(svc, podEffect(nil, rec))
			}
		}
	}
}

func podEffect(old, rec *record) syncer.Effect {
	switch {
	case old == nil:
		return syncer.PodEffect(nil, &rec.Pod)
	case rec == nil:
		return syncer.PodEffect(&old.Pod, nil)
	}
	return syncer.PodEffect(&old.Pod, &rec.Pod)
}

// replaceRecord puts a version in the place of one with the same labels.
func (s *Store) replaceRecord(ns *namespace, old, rec *record, d *dirtyList) {
	g := old.group
	rec.group, rec.place, rec.Labels = g, old.place, g.labels
	g.pods[rec.place] = rec
	g.tally.remove(&old.Pod)
	g.tally.add(&rec.Pod)
	if effect := podEffect(old, rec); effect != syncer.None {
		for _, svc := range g.services {
			d.add(svc, effect)
		}
	}
	s.release(old)
	ns.pods[rec.Name] = rec
}

// removePod takes a pod out.
func (s *Store) removePod(rec *record, d *dirtyList) {
	ns := s.namespaces[rec.Namespace]
	s.confirmPod(rec)
	noteChange(rec, nil, d)
	s.detach(ns, rec)
	s.release(rec)
	delete(ns.pods, rec.Name)
	s.count.pods--
	s.sweepNamespace(ns)
}

// confirmPod ends the holding of a pod, if it is held.
func (s *Store) confirmPod(rec *record) *record {
	if rec.held {
		rec.held = false
		s.count.heldPods--
	}
	return rec
}

// newRecord copies a pod compactly: name and UID in one string, one address
// inside the record, and what others have as well shared with them.
func (s *Store) newRecord(ns *namespace, p *syncer.Pod, rv uint64, old *record) *record {
	rec := &record{Pod: *p, rv: rv}
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
	rec.NodeName = s.acquireNode(p.NodeName)
	rec.Subdomain = s.acquireString(p.Subdomain)
	return rec
}

// release gives back what newRecord shared.
func (s *Store) release(rec *record) {
	s.ports.release(rec.Ports)
	s.releaseNode(rec.NodeName)
	s.releaseString(rec.Subdomain)
}

func (s *Store) acquireString(text string) string {
	if text == "" {
		return ""
	}
	return s.strings.acquire(text)
}

func (s *Store) releaseString(text string) {
	if text != "" {
		s.strings.release(text)
	}
}

// insertRecord puts a record into the group of its labels.
func (s *Store) insertRecord(ns *namespace, rec *record, labels map[string]string) {
	hash := HashLabels(s.seed, labels)
	g := ns.find(hash, labels)
	if g == nil {
		own := make(map[string]string, len(labels))
		for k, v := range labels {
			own[s.strings.acquire(k)] = s.strings.acquire(v)
		}
		g = &group{labels: own, hash: hash}
		ns.addGroup(g)
	}
	rec.group, rec.Labels, rec.place = g, g.labels, int32(len(g.pods))
	g.pods = append(g.pods, rec)
	g.tally.add(&rec.Pod)
}

// detach takes a record out of its group, and the group away with its last pod.
func (s *Store) detach(ns *namespace, rec *record) {
	g := rec.group
	last := len(g.pods) - 1
	g.pods[rec.place] = g.pods[last]
	g.pods[rec.place].place = rec.place
	g.pods[last] = nil
	g.pods = g.pods[:last]
	g.tally.remove(&rec.Pod)
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
