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
// compares. Tests call it after each step.
func (s *Store) check() error {
	c := checker{store: s, templates: map[string]int{}}
	for name, ns := range s.namespaces {
		c.expect(name == ns.name && len(ns.pods)+len(ns.services) > 0, "namespace %s is empty or misnamed %s", name, ns.name)
		c.groups(ns)
		c.services(ns)
		c.buckets(ns)
	}
	c.users(s.templates)
	for key := range s.endpoints {
		c.expect(s.ByHand(key), "%s: Endpoints that nobody needs", key)
	}
	for key, v := range s.slices {
		c.expect(!v.Object.Derived && v.Object.Key == key, "%s: a slice that nobody wrote", key)
	}
	return errors.Join(c.faults...)
}

func (c *checker) users(table templates) {
	c.expect(len(table) == len(c.templates), "%d templates, want %d", len(table), len(c.templates))
	for text, of := range table {
		c.expect(of.users == c.templates[text] && of.text == text, "template %q has %d users, want %d", text, of.users, c.templates[text])
	}
}

type checker struct {
	store     *Store
	templates map[string]int
	faults    []error
}

func (c *checker) expect(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *checker) groups(ns *namespace) {
	inGroups := 0
	for labels, g := range ns.groups {
		c.expect(g.labels == labels && g.ns == ns && len(g.pods) > 0, "%s: group %v is misfiled or empty", ns.name, labels)
		inGroups += len(g.pods)
		for i, rec := range g.pods {
			c.expect(rec.group == g && !slices.Contains(g.pods[:i], rec) && ns.pods[rec.name] == rec, "%s: place in group is wrong", rec.name)
		}
		c.set(g.services)
	}
	c.expect(inGroups == len(ns.pods), "%s: %d pods, %d in groups", ns.name, len(ns.pods), inGroups)
	for name, rec := range ns.pods {
		c.expect(rec.name == name, "%s: filed under %s", rec.name, name)
		c.templates[rec.template.text]++
	}
}

func (c *checker) set(of set[*service]) {
	for i, svc := range of {
		c.expect(!slices.Contains(of[:i], svc), "%s: twice in a set", svc.Key)
	}
}

func (c *checker) services(ns *namespace) {
	for name, svc := range ns.services {
		c.expect(svc.ns == ns && svc.Name == name, "%s: filed under %s/%s", svc.Key, ns.name, name)
		n := 0
		for _, g := range ns.groups {
			want := svc.indexed() && g.labels.Contains(svc.selector)
			c.expect(slices.Contains(svc.groups, g) == want && slices.Contains(g.services, svc) == want, "%s: selects %v: want %v", svc.Key, g.labels, want)
			if want {
				n++
			}
		}
		c.expect(len(svc.groups) == n, "%s: %d groups, want %d", svc.Key, len(svc.groups), n)
	}
	for _, g := range ns.groups {
		for _, svc := range g.services {
			c.expect(ns.services[svc.Name] == svc, "%v: has the Service %s, which is gone", g.labels, svc.Key)
		}
	}
}

func (c *checker) buckets(ns *namespace) {
	filed := map[string]int{}
	for _, svc := range ns.services {
		switch {
		case !svc.indexed():
		case svc.selector == "":
			c.expect(slices.Contains(ns.everyPod, svc), "%s: selects all and is not filed so", svc.Key)
		default:
			filed[keyOf(svc.filed)]++
			c.expect(svc.selector.Contains(syncer.Labels(svc.filed)), "%s: filed under %s", svc.Key, svc.filed)
			b := ns.buckets[svc.filed]
			c.expect(b != nil && slices.Contains(b.services, svc), "%s: not in its bucket", svc.Key)
		}
	}
	c.expect(maps.Equal(filed, ns.filed), "%s: filed by key %v, want %v", ns.name, ns.filed, filed)
	services, groups := map[string]int{}, map[string]int{}
	for pair, b := range ns.buckets {
		c.expect(len(b.services)+len(b.groups) > 0, "%s: bucket %s is empty", ns.name, pair)
		services[keyOf(pair)] += len(b.services)
		groups[keyOf(pair)] += len(b.groups)
		for _, g := range b.groups {
			c.expect(g.labels.Contains(syncer.Labels(pair)) && ns.groups[g.labels] == g, "%s: bucket %s holds %v", ns.name, pair, g.labels)
		}
	}
	c.expect(maps.Equal(services, filed), "%s: in buckets by key %v, want %v", ns.name, services, filed)
	for _, g := range ns.groups {
		for pair := range g.labels.Pairs() {
			groups[keyOf(pair)]--
		}
	}
	for key := range filed {
		c.expect(groups[key] == 0, "%s: key %s: %d groups too many", ns.name, key, groups[key])
	}
}
