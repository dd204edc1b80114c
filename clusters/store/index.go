// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"maps"
	"slices"
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
	// buckets are by pair. One that is empty is removed. filed is how many Services are filed under
	// the pairs of a label key; without any the key has no buckets.
	buckets map[string]*bucket
	filed   map[string]int
	// everyPod are the indexed Services with an empty selector.
	everyPod set[*service]
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

// set is a set as a list, which costs little while it is small. To remove a member takes a search
// of some nanoseconds for each ten of the others.
type set[T comparable] []T

// add adds a member that is not in the set.
func (s *set[T]) add(x T) { *s = append(*s, x) }

// remove removes a member that is in the set; the last one of the list takes its place.
func (s *set[T]) remove(x T) {
	list := *s
	last := len(list) - 1
	list[slices.Index(list, x)] = list[last]
	clear(list[last:])
	list = list[:last]
	if last < cap(list)/4 {
		list = slices.Clip(slices.Clone(list))
	}
	*s = list
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
		if b := ns.buckets[pair]; b != nil {
			for _, svc := range b.services {
				if labels.Contains(svc.selector) {
					yield(svc)
				}
			}
		}
	}
}

// addGroup files a group that is new.
func (ns *namespace) addGroup(g *group) {
	ns.groups[g.labels] = g
	for pair := range g.labels.Pairs() {
		if ns.filed[keyOf(pair)] > 0 {
			ns.bucket(pair).groups.add(g)
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
		if b := ns.buckets[pair]; b != nil {
			b.groups.remove(g)
			ns.sweep(pair)
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
	key := keyOf(svc.filed)
	if ns.filed[key]++; ns.filed[key] == 1 {
		ns.fileGroups(key)
	}
	b := ns.bucket(svc.filed)
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
	ns.buckets[svc.filed].services.remove(svc)
	ns.sweep(svc.filed)
	if ns.filed[key]--; ns.filed[key] == 0 {
		delete(ns.filed, key)
		maps.DeleteFunc(ns.buckets, func(pair string, _ *bucket) bool { return keyOf(pair) == key })
	}
	svc.filed = ""
}

// choose returns the pair of a selector to file a Service under: that with the
// fewest Services, the first of several.
func (ns *namespace) choose(selector syncer.Labels) (best string) {
	fewest := -1
	for pair := range selector.Pairs() {
		services := 0
		if b := ns.buckets[pair]; b != nil {
			services = len(b.services)
		}
		if fewest < 0 || services < fewest {
			best, fewest = pair, services
		}
	}
	return best
}

// fileGroups puts the groups that have a label key into its buckets.
func (ns *namespace) fileGroups(key string) {
	for _, g := range ns.groups {
		for pair := range g.labels.Pairs() {
			if keyOf(pair) == key {
				ns.bucket(pair).groups.add(g)
			}
		}
	}
}

func (ns *namespace) bucket(pair string) *bucket {
	b := ns.buckets[pair]
	if b == nil {
		b = &bucket{}
		ns.buckets[pair] = b
	}
	return b
}

// sweep removes a bucket that has become empty.
func (ns *namespace) sweep(pair string) {
	if b := ns.buckets[pair]; len(b.services) == 0 && len(b.groups) == 0 {
		delete(ns.buckets, pair)
	}
}
