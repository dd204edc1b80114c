// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"tributary.dev/tributary/syncer"
)

// check derives every index and count from the pods and Services anew and
// compares. It is for tests: they call it after each step.
func (s *Store) check() error {
	c := checker{store: s, replicas: map[syncer.Key][]*service{}, strings: map[string]int{}, ports: map[string]int{}, nodes: map[string]int{}}
	for name, ns := range s.namespaces {
		c.expect(name == ns.name && len(ns.pods)+len(ns.services) > 0, "namespace %s is empty or misnamed %s", name, ns.name)
		c.groups(ns)
		c.services(ns)
		c.buckets(ns)
	}
	c.totals()
	return errors.Join(c.faults...)
}

type checker struct {
	store    *Store
	count    Stats
	replicas map[syncer.Key][]*service
	strings  map[string]int
	ports    map[string]int
	nodes    map[string]int
	faults   []error
}

func (c *checker) expect(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// all walks the groups of a namespace.
func (ns *namespace) all(yield func(*group) bool) {
	for _, first := range ns.groups {
		for g := first; g != nil; g = g.next {
			if !yield(g) {
				return
			}
		}
	}
}

func (c *checker) groups(ns *namespace) {
	inGroups := 0
	for g := range ns.all {
		c.expect(g.hash == HashLabels(c.store.seed, g.labels), "%s: group %v has a wrong hash", ns.name, g.labels)
		c.expect(ns.find(g.hash, g.labels, g.keptFor) == g, "%s: group %v exists twice", ns.name, g.labels)
		c.expect(len(g.pods) > 0, "%s: group %v has no pods", ns.name, g.labels)
		inGroups += len(g.pods)
		var t, held podCounts
		for i, rec := range g.pods {
			t.add(&rec.Pod)
			if rec.held {
				held.add(&rec.Pod)
			}
			c.expect(rec.group == g && int(rec.place) == i, "%s: place in group is wrong", rec.Key)
			c.expect(ns.pods[rec.Name] == rec, "%s: in a group and not in its namespace", rec.Key)
			c.expect(maps.Equal(rec.Labels, g.labels), "%s: labels are not its group's", rec.Key)
		}
		c.expect(t == g.podCounts, "%s: group %v: podCounts %v, want %v", ns.name, g.labels, g.podCounts, t)
		c.expect(held == g.held, "%s: group %v: held %v, want %v", ns.name, g.labels, g.held, held)
		for k, v := range g.labels {
			c.strings[k]++
			if v != "" {
				c.strings[v]++
			}
		}
	}
	c.expect(inGroups == len(ns.pods), "%s: %d pods, %d in groups", ns.name, len(ns.pods), inGroups)
	for name, rec := range ns.pods {
		c.expect(rec.Name == name && rec.Namespace == ns.name, "%s: filed under %s/%s", rec.Key, ns.name, name)
		c.pod(rec)
	}
}

func (c *checker) pod(rec *record) {
	c.count.Pods++
	if rec.held {
		c.count.HeldPods++
	}
	if rec.NodeName != "" {
		c.nodes[rec.NodeName]++
	}
	if rec.Subdomain != "" {
		c.strings[rec.Subdomain]++
	}
	if len(rec.Ports) > 0 {
		c.ports[string(portsKey(nil, rec.Ports))]++
	}
}

func (c *checker) services(ns *namespace) {
	for name, svc := range ns.services {
		key := svc.current.Key
		c.expect(key == syncer.Key{Namespace: ns.name, Name: name}, "%s: filed under %s/%s", key, ns.name, name)
		c.count.Services++
		if svc.held {
			c.count.HeldServices++
		}
		if svc.placed {
			c.count.Placed++
			c.replicas[svc.replica] = append(c.replicas[svc.replica], svc)
		}
		isManual := c.store.manual[key] != nil
		c.expect(isManual == svc.needsManual(), "%s: written by hand is %v", key, isManual)
		waits := svc.current.Selector == nil && svc.effective.Selector != nil && !c.store.manual[key].known()
		c.expect(svc.effective == svc.current || waits, "%s: computed from another version", key)
		c.expect(svc.indexed == (svc.placed && svc.computed()), "%s: indexed is %v", key, svc.indexed)
		for g := range ns.all {
			want := svc.indexed && selects(svc.effective.Selector, g.labels) && g.isFor(svc)
			_, got := svc.groups[g]
			c.expect(got == want, "%s: selects %v: %v, want %v", key, g.labels, got, want)
			c.expect(slices.Contains(g.services, svc) == want, "%s: is in %v: %v, want %v", key, g.labels, !want, want)
		}
		for g := range svc.groups {
			c.expect(ns.find(g.hash, g.labels, g.keptFor) == g, "%s: has the group %v, which is gone", key, g.labels)
		}
	}
	for g := range ns.all {
		for i, svc := range g.services {
			c.expect(ns.services[svc.current.Name] == svc, "%v: has the Service %s, which is gone", g.labels, svc.current.Key)
			c.expect(!slices.Contains(g.services[:i], svc), "%v: has the Service %s twice", g.labels, svc.current.Key)
		}
	}
}

func (c *checker) buckets(ns *namespace) {
	filed := map[string]int{}
	for _, svc := range ns.services {
		if !svc.indexed {
			continue
		}
		if len(svc.effective.Selector) == 0 {
			c.expect(slices.Contains(ns.everyPod, svc), "%s: selects all and is not filed so", svc.current.Key)
			continue
		}
		filed[svc.filedKey]++
		value, ok := svc.effective.Selector[svc.filedKey]
		c.expect(ok && value == svc.filedValue, "%s: filed under %s=%s", svc.current.Key, svc.filedKey, svc.filedValue)
		ki := ns.keys[svc.filedKey]
		found := ki != nil && ki.buckets[svc.filedValue] != nil && slices.Contains(ki.buckets[svc.filedValue].services, svc)
		c.expect(found, "%s: not in its bucket", svc.current.Key)
	}
	for k, ki := range ns.keys {
		c.expect(ki.services == filed[k] && filed[k] > 0, "%s: key %s has %d Services, want %d", ns.name, k, ki.services, filed[k])
		inBuckets, want := 0, 0
		for v, b := range ki.buckets {
			c.expect(len(b.services)+len(b.groups) > 0, "%s: bucket %s=%s is empty", ns.name, k, v)
			inBuckets += len(b.services)
			for g := range b.groups {
				value, ok := g.labels[k]
				c.expect(ok && value == v && ns.find(g.hash, g.labels, g.keptFor) == g, "%s: bucket %s=%s holds %v", ns.name, k, v, g.labels)
				want--
			}
		}
		for g := range ns.all {
			if _, ok := g.labels[k]; ok {
				want++
			}
		}
		c.expect(want == 0, "%s: key %s lacks %d groups", ns.name, k, want)
		c.expect(inBuckets == filed[k], "%s: key %s: %d Services in buckets, want %d", ns.name, k, inBuckets, filed[k])
	}
}

func (c *checker) totals() {
	s := c.store
	c.count.OutdatedPods = s.count.OutdatedPods
	c.expect(c.count == s.count, "counts %+v, want %+v", s.count, c.count)
	serving := 0
	for _, p := range s.Pods() {
		if IsReady(p) && s.Serves(p) {
			serving++
		}
	}
	c.expect(serving == s.Serving(), "%d ready pods serve, want %d", s.Serving(), serving)
	c.expect(len(c.replicas) == len(s.replicas), "%d replicas, want %d", len(s.replicas), len(c.replicas))
	for key, want := range c.replicas {
		got := s.replicas[key]
		same := len(got) == len(want)
		for _, svc := range want {
			same = same && slices.Contains(got, svc)
		}
		c.expect(same, "replica %s: wrong sources", key)
	}
	strings, ports, nodes := map[string]int{}, map[string]int{}, map[string]int{}
	for text, e := range s.strings {
		strings[text] = e.users
	}
	for text, e := range s.ports {
		ports[text] = e.users
	}
	for name, n := range s.nodes {
		nodes[name] = n.users
	}
	c.expect(maps.Equal(strings, c.strings), "shared strings %v, want %v", strings, c.strings)
	c.expect(maps.Equal(ports, c.ports), "shared port lists %v, want %v", ports, c.ports)
	c.expect(maps.Equal(nodes, c.nodes), "nodes %v, want %v", nodes, c.nodes)
}
