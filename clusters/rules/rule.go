// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/clusters/store"
)

// Rule is one rule as the configuration has it.
type Rule struct {
	// Name is unique among the rules.
	Name string
	// Clusters and Namespaces are globs of members and of namespaces in them; empty
	// means all. ServiceSelector is a label selector of Services; empty means all.
	Clusters, Namespaces []string
	ServiceSelector      string
	// When is the expression.
	When string
	Then store.Outcome
}

// Fault is what is wrong with the expression of a rule.
type Fault struct {
	Rule int // its index
	// Line and Column are where in the expression, in characters from 1; 0 for all of it.
	Line, Column int
	// Message and Remedy are for people.
	Message, Remedy string
}

// Program is the rules of a configuration, compiled.
type Program struct{ rules []rule }

// rule is one of them.
type rule struct {
	Rule
	program
	services labels.Selector
}

// Compile compiles rules and returns all that is wrong with their expressions. What
// else a rule says has been validated before.
func Compile(rules []Rule) (*Program, []Fault) {
	p := &Program{}
	var faults []Fault
	for i, r := range rules {
		compiled, wrong := compile(r.When)
		for _, f := range wrong {
			f.Rule = i
			faults = append(faults, f)
		}
		selector, err := labels.Parse(r.ServiceSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		p.rules = append(p.rules, rule{Rule: r, program: compiled, services: selector})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return p, nil
}

// For is the rules of one member; nil if there are none. A nil Program has none.
func (p *Program) For(cluster string) *Set {
	if p == nil {
		return nil
	}
	s := &Set{cluster: cluster, pod: &paths{}, service: &paths{}, node: &paths{}}
	var said []Rule
	for i := range p.rules {
		r := &p.rules[i]
		if matchesAny(r.Clusters, cluster) {
			node := &paths{}
			readPaths(r.tree, map[string]*paths{varPod: s.pod, varService: s.service, varNode: node})
			s.node.merge(node)
			plain := r.plain != nil && r.most <= perCallLimit-s.most
			if plain {
				s.most += r.most
			}
			s.rules = append(s.rules, &counted{rule: r, isPlain: plain, readsZone: node.in("zone") != nil})
			said = append(said, r.Rule)
		}
	}
	if len(s.rules) == 0 {
		return nil
	}
	id, err := json.Marshal(said)
	if err != nil { // a list of texts always marshals
		return nil
	}
	s.id = string(id)
	return s
}

func (r *rule) concerns(s *store.Subject) bool {
	return matchesAny(r.Namespaces, s.Namespace) && r.services.Matches(labels.Set(s.Labels))
}

// matchesAny reports whether one of the globs matches; no globs match all.
func matchesAny(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, name)
		return err == nil && matched
	})
}
