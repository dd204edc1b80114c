// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"

	"tributary.dev/tributary/syncer"
)

// The index of a namespace joins Services and pods through two ideas.
//
// Pods with equal labels form a group, and a selector selects a group or it does
// not. So the join is between Services and groups: from a pod to its
// Services is a look into its group, from a Service to its pods a walk over its
// groups. A selector is compared with labels only when a group or a Service is
// new, never for a pod of a group that exists. A pod knows nothing of Services,
// so the join costs a pod no memory but its place in the group.
//
// For what is new, each Service is in one bucket, that of one pair (key,
// value) of its selector: a group needs to look only into the buckets of its own
// pairs. The pair is the one with the fewest Services at the time, so a pair that
// a thousand Services share ("part-of: shop") is not chosen as long as
// another one tells them apart. Groups are in the buckets of all their pairs
// whose key some Service chose, so a new Service finds its groups in its bucket.
// Keys that no Service chose have no buckets: labels nobody selects by cost
// nothing.
type namespace struct {
	name     string
	pods     map[string]*record
	services map[string]*service
	groups   map[syncer.Labels]*group
	// keys has an entry for each label key that an indexed Service was filed under.
	keys map[string]*keyIndex
	// everyPod are the indexed Services with an empty selector.
	everyPod set[*service]
}

// keyIndex holds the buckets of one label key, by pair. A bucket that is empty is removed.
type keyIndex struct {
	buckets  map[string]*bucket
	services int // in all buckets; the index goes with the last one
}

// bucket is the meeting point of Services and groups with one label pair.
type bucket struct {
	services set[*service]
	groups   set[*group]
}

// group is the set of a namespace's pods with the same labels. It exists as long as it has
// pods.
type group struct {
	ns     *namespace
	labels syncer.Labels
	pods   set[*record]
	// services are the indexed ones that select the labels.
	services set[*service]
}

func newNamespace(name string) *namespace {
	return &namespace{
		name:     name,
		pods:     map[string]*record{},
		services: map[string]*service{},
		groups:   map[syncer.Labels]*group{},
		keys:     map[string]*keyIndex{},
	}
}

// join puts a record into the group of its labels.
func (ns *namespace) join(rec *record, labels syncer.Labels) {
	g := ns.groups[labels]
	if g == nil {
		g = &group{ns: ns, labels: labels}
		ns.addGroup(g)
	}
	rec.group = g
	g.pods.add(rec)
}

// keyOf is the key of a pair.
func keyOf(pair string) string {
	key, _, _ := strings.Cut(pair, "=")
	return key
}

// matching calls yield for each indexed Service that selects labels.
func (ns *namespace) matching(labels syncer.Labels, yield func(*service)) {
	for _, svc := range ns.everyPod {
		yield(svc)
	}
	for pair := range labels.Pairs() {
		ki := ns.keys[keyOf(pair)]
		if ki == nil || ki.buckets[pair] == nil {
			continue
		}
		for _, svc := range ki.buckets[pair].services {
			if labels.Contains(svc.selector) {
				yield(svc)
			}
		}
	}
}

// addGroup files a group that is new.
func (ns *namespace) addGroup(g *group) {
	ns.groups[g.labels] = g
	for pair := range g.labels.Pairs() {
		if ki := ns.keys[keyOf(pair)]; ki != nil {
			ki.bucket(pair).groups.add(g)
		}
	}
	ns.matching(g.labels, func(svc *service) { meet(svc, g) })
}

// sweepGroup removes a group that has no pods left.
func (ns *namespace) sweepGroup(g *group) {
	if len(g.pods) > 0 {
		return
	}
	delete(ns.groups, g.labels)
	for pair := range g.labels.Pairs() {
		if ki := ns.keys[keyOf(pair)]; ki != nil {
			ki.buckets[pair].groups.remove(g)
			ki.sweep(pair)
		}
	}
	for _, svc := range g.services {
		svc.groups.remove(g)
	}
}

func meet(svc *service, g *group) {
	svc.groups.add(g)
	g.services.add(svc)
}

// index enters a Service that computes from pods into the index.
func (ns *namespace) index(svc *service) {
	if svc.selector == "" {
		ns.everyPod.add(svc)
		for _, g := range ns.groups {
			meet(svc, g)
		}
		return
	}
	svc.filed = ns.choose(svc.selector)
	ki := ns.key(keyOf(svc.filed))
	ki.services++
	b := ki.bucket(svc.filed)
	b.services.add(svc)
	for _, g := range b.groups {
		if g.labels.Contains(svc.selector) {
			meet(svc, g)
		}
	}
}

// unindex is the reverse of index.
func (ns *namespace) unindex(svc *service) {
	for _, g := range svc.groups {
		g.services.remove(svc)
	}
	svc.groups = nil
	if svc.selector == "" {
		ns.everyPod.remove(svc)
		return
	}
	key := keyOf(svc.filed)
	ki := ns.keys[key]
	ki.buckets[svc.filed].services.remove(svc)
	if ki.services--; ki.services == 0 {
		delete(ns.keys, key)
	} else {
		ki.sweep(svc.filed)
	}
	svc.filed = ""
}

// choose returns the pair of a selector to file a Service under: that with the
// fewest Services, the first of several.
func (ns *namespace) choose(selector syncer.Labels) (best string) {
	fewest := -1
	for pair := range selector.Pairs() {
		services := 0
		if ki := ns.keys[keyOf(pair)]; ki != nil && ki.buckets[pair] != nil {
			services = len(ki.buckets[pair].services)
		}
		if fewest < 0 || services < fewest {
			best, fewest = pair, services
		}
	}
	return best
}

// key returns the buckets of a label key; new ones get the groups that have it.
func (ns *namespace) key(key string) *keyIndex {
	ki := ns.keys[key]
	if ki != nil {
		return ki
	}
	ki = &keyIndex{buckets: map[string]*bucket{}}
	ns.keys[key] = ki
	for _, g := range ns.groups {
		for pair := range g.labels.Pairs() {
			if keyOf(pair) == key {
				ki.bucket(pair).groups.add(g)
			}
		}
	}
	return ki
}

func (ki *keyIndex) bucket(pair string) *bucket {
	b := ki.buckets[pair]
	if b == nil {
		b = &bucket{}
		ki.buckets[pair] = b
	}
	return b
}

// sweep removes a bucket that has become empty.
func (ki *keyIndex) sweep(pair string) {
	if b := ki.buckets[pair]; len(b.services) == 0 && len(b.groups) == 0 {
		delete(ki.buckets, pair)
	}
}
