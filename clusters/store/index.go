// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// The index of a namespace joins Services and pods through two ideas.
//
// Pods with equal labels form a group, and a selector selects a group or it does
// not. So the join is kept between Services and groups: from a pod to its
// Services is a look into its group, from a Service to its pods a walk over its
// groups. A selector is compared with labels only when a group or a Service is
// new, never for a pod of a group that exists. A pod knows nothing of Services,
// so the join costs a pod no memory but its place in the group.
//
// For what is new, each Service stands in one bucket, that of one pair (key,
// value) of its selector: a group needs to look only into the buckets of its own
// pairs. The pair is the one with the fewest Services at the time, so a pair that
// a thousand Services share ("part-of: shop") is nobody's choice as long as
// another one tells them apart. Groups stand in the buckets of all their pairs
// whose key some Service chose, so a new Service finds its groups in its bucket.
// Keys that no Service chose have no buckets: labels nobody selects by cost
// nothing.
type namespace struct {
	name     string
	pods     map[string]*record
	services map[string]*service
	// kept is what rules need of the pods, by name; without rules it is nil.
	kept map[string]Kept
	// groups by hash of their labels; groups with the same hash are chained.
	groups map[uint64]*group
	// keys has an entry for each label key that a indexed Service was filed under.
	keys map[string]*keyIndex
	// everyPod are the indexed Services with an empty selector.
	everyPod []*service
}

// keyIndex holds the buckets of one label key, by value. A bucket that is empty
// is removed.
type keyIndex struct {
	buckets  map[string]*bucket
	services int // in all buckets; the index goes with the last one
}

// bucket is the meeting point of Services and groups with one label pair.
type bucket struct {
	services []*service
	groups   map[*group]struct{}
}

// group is the set of a namespace's pods with the same labels, of which those that are
// kept for some Services alone are a set by themselves: see KeepPod. It exists as long as
// it has pods.
type group struct {
	labels map[string]string
	hash   uint64
	next   *group // of the same hash
	pods   []*record
	// keptFor are the Services that pods are kept for, sorted; nil: all that select them.
	keptFor []syncer.Key
	// services are the indexed ones that select the labels, of those that it is kept for.
	services []*service
	// podCounts counts all pods, held those of them that lists lack.
	podCounts, held podCounts
}

func newNamespace(name string) *namespace {
	return &namespace{
		name:     name,
		pods:     map[string]*record{},
		services: map[string]*service{},
		groups:   map[uint64]*group{},
		keys:     map[string]*keyIndex{},
	}
}

// selects reports whether a selector that is not nil selects labels.
func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// find returns the group of labels that is kept for some Services, or nil.
func (ns *namespace) find(hash uint64, labels map[string]string, keptFor []syncer.Key) *group {
	for g := ns.groups[hash]; g != nil; g = g.next {
		if syncer.EqualLabels(g.labels, labels) && slices.Equal(g.keptFor, keptFor) {
			return g
		}
	}
	return nil
}

// matching returns the indexed Services that select labels.
func (ns *namespace) matching(labels map[string]string) []*service {
	found := slices.Clone(ns.everyPod)
	for k, v := range labels {
		ki := ns.keys[k]
		if ki == nil {
			continue
		}
		b := ki.buckets[v]
		if b == nil {
			continue
		}
		for _, svc := range b.services {
			if selects(svc.effective.Selector, labels) {
				found = append(found, svc)
			}
		}
	}
	return found
}

// addGroup files a group that is new.
func (ns *namespace) addGroup(g *group) {
	g.next = ns.groups[g.hash]
	ns.groups[g.hash] = g
	for k, v := range g.labels {
		if ki := ns.keys[k]; ki != nil {
			ki.bucket(v).groups[g] = struct{}{}
		}
	}
	g.services = slices.Clip(slices.DeleteFunc(ns.matching(g.labels), func(svc *service) bool { return !g.isFor(svc) }))
	for _, svc := range g.services {
		svc.groups[g] = struct{}{}
	}
}

// removeGroup takes out a group without pods.
func (ns *namespace) removeGroup(g *group) {
	ns.unchain(g)
	for k, v := range g.labels {
		if ki := ns.keys[k]; ki != nil {
			delete(ki.buckets[v].groups, g)
			ki.sweep(v)
		}
	}
	for _, svc := range g.services {
		delete(svc.groups, g)
	}
	g.services = nil
}

func (ns *namespace) unchain(g *group) {
	first := ns.groups[g.hash]
	if first == g {
		if g.next == nil {
			delete(ns.groups, g.hash)
		} else {
			ns.groups[g.hash] = g.next
		}
		return
	}
	for before := first; before != nil; before = before.next {
		if before.next == g {
			before.next = g.next
			return
		}
	}
}

// index enters a Service that computes from pods into the index.
func (ns *namespace) index(svc *service) {
	svc.groups = map[*group]struct{}{}
	selector := svc.effective.Selector
	if len(selector) == 0 {
		ns.everyPod = append(ns.everyPod, svc)
		for _, first := range ns.groups {
			for g := first; g != nil; g = g.next {
				join(svc, g)
			}
		}
		return
	}
	svc.filedKey, svc.filedValue = ns.choose(selector)
	ki := ns.key(svc.filedKey)
	ki.services++
	b := ki.bucket(svc.filedValue)
	b.services = append(b.services, svc)
	for g := range b.groups {
		if selects(selector, g.labels) {
			join(svc, g)
		}
	}
}

// isFor reports whether a Service may have the pods of a group.
func (g *group) isFor(svc *service) bool {
	return len(g.keptFor) == 0 || slices.Contains(g.keptFor, svc.current.Key)
}

func join(svc *service, g *group) {
	if !g.isFor(svc) {
		return
	}
	svc.groups[g] = struct{}{}
	g.services = append(g.services, svc)
}

// unindex is the reverse of index.
func (ns *namespace) unindex(svc *service) {
	for g := range svc.groups {
		g.services = without(g.services, svc)
	}
	svc.groups = nil
	if len(svc.effective.Selector) == 0 {
		ns.everyPod = without(ns.everyPod, svc)
		return
	}
	ki := ns.keys[svc.filedKey]
	b := ki.buckets[svc.filedValue]
	b.services = without(b.services, svc)
	if ki.services--; ki.services == 0 {
		delete(ns.keys, svc.filedKey)
	} else {
		ki.sweep(svc.filedValue)
	}
	svc.filedKey, svc.filedValue = "", ""
}

// choose returns the pair of a selector to file a Service under: that with the
// fewest Services, then one whose key has buckets already, then the first by
// key, so that Services of one shape make one choice.
func (ns *namespace) choose(selector map[string]string) (key, value string) {
	bestServices, bestNew := -1, false
	for k, v := range selector {
		services, isNew := 0, true
		if ki := ns.keys[k]; ki != nil {
			isNew = false
			if b := ki.buckets[v]; b != nil {
				services = len(b.services)
			}
		}
		better := bestServices < 0 || services < bestServices ||
			services == bestServices && (!isNew && bestNew || isNew == bestNew && k < key)
		if better {
			key, value, bestServices, bestNew = k, v, services, isNew
		}
	}
	return key, value
}

// key returns the index of a label key, built from the groups if it is new.
func (ns *namespace) key(k string) *keyIndex {
	ki := ns.keys[k]
	if ki != nil {
		return ki
	}
	ki = &keyIndex{buckets: map[string]*bucket{}}
	ns.keys[k] = ki
	for _, first := range ns.groups {
		for g := first; g != nil; g = g.next {
			if v, ok := g.labels[k]; ok {
				ki.bucket(v).groups[g] = struct{}{}
			}
		}
	}
	return ki
}

func (ki *keyIndex) bucket(value string) *bucket {
	b := ki.buckets[value]
	if b == nil {
		b = &bucket{groups: map[*group]struct{}{}}
		ki.buckets[value] = b
	}
	return b
}

// sweep removes a bucket that has become empty.
func (ki *keyIndex) sweep(value string) {
	if b := ki.buckets[value]; len(b.services) == 0 && len(b.groups) == 0 {
		delete(ki.buckets, value)
	}
}

// without removes one element; order is not kept.
func without[T comparable](list []T, x T) []T {
	i := slices.Index(list, x)
	last := len(list) - 1
	list[i] = list[last]
	clear(list[last:])
	return list[:last]
}
