// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path"
	"slices"

	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
)

// PodRule decides about the pods that it matches.
type PodRule struct {
	// Name names the rule in records, metrics and explanations: a DNS label, unique.
	Name string `json:"name"`
	// Clusters are names or globs of the members that the rule is for. Empty means all.
	Clusters []string `json:"clusters"`
	// Namespaces are names or globs of the members' namespaces. Empty means all.
	Namespaces []string `json:"namespaces"`
	// ServiceSelector is a label selector of the members' Services. Empty selects all.
	ServiceSelector string `json:"serviceSelector"`
	// When is a condition in CEL, the expression language of Kubernetes. It reads `pod`
	// and `service` (both as in the API), `node` (`name`, `zone`) and `cluster` (the
	// member's name). A pod on which it fails, for a key that is missing, does not match.
	When string `json:"when"`
	// Then is what a pod that matches counts as: `Ready` (unless it is being deleted, or
	// has finished) or `NotReady`. Or it is `Absent` (no endpoint), or `Upstream` (as Kubernetes has it).
	Then store.Outcome `json:"then"`
}

// SetDefaults puts the defaults of a rule in place: it is for everything.
func (r *PodRule) SetDefaults() { r.Clusters, r.Namespaces = []string{}, []string{} }

// podRules are the rules as package rules has them.
func (c *Config) podRules() []rules.Rule {
	out := make([]rules.Rule, len(c.Rules))
	for i, r := range c.Rules {
		out[i] = rules.Rule(r)
	}
	return out
}

// podRules checks the rules; those of their expressions are told with their place.
func (k *checker) podRules(at string, c *Config) {
	for i := range c.Rules {
		k.podRule(fmt.Sprintf("%s[%d]", at, i), &c.Rules[i], c)
	}
	unique(k, at, "rule", c.Rules, func(r PodRule) string { return r.Name })
	_, faults := rules.Compile(c.podRules())
	for _, f := range faults {
		if c.Rules[f.Rule].When != "" {
			k.faults = append(k.faults, Fault{
				Field: fmt.Sprintf("%s[%d].when", at, f.Rule), ValueLine: f.Line, ValueColumn: f.Column, Message: f.Message, Remedy: f.Remedy,
			})
		}
	}
}

func (k *checker) podRule(at string, r *PodRule, c *Config) {
	if r.Name == "" {
		k.fault(at+".name", "must be given", "name the rule; records, metrics and tributary explain show the name")
	} else {
		k.label(at+".name", r.Name)
	}
	for n, glob := range r.Clusters {
		k.memberGlob(fmt.Sprintf("%s.clusters[%d]", at, n), glob, c)
	}
	k.globs(at+".namespaces", r.Namespaces)
	k.selector(at+".serviceSelector", r.ServiceSelector)
	if r.When == "" {
		k.fault(at+".when", "must be given", "write a condition in CEL; docs/rules.md has examples")
	}
	if r.Then == "" {
		k.fault(at+".then", "must be given", "write one of "+listed(store.Outcomes()))
	} else {
		oneOf(k, at+".then", r.Then, store.Outcomes())
	}
}

// memberGlob checks a name or glob of members: where all are known, one that matches none
// is a slip of the hand.
func (k *checker) memberGlob(at, glob string, c *Config) {
	_, err := path.Match(glob, "")
	switch {
	case err != nil || glob == "":
		k.fault(at, fmt.Sprintf("%q is not a glob", glob), "write the name of a cluster, or a glob such as idc-*")
	case c.ClustersFrom.Secrets == nil && !slices.ContainsFunc(c.Clusters, func(m Cluster) bool { return matchesAny([]string{glob}, m.Name) }):
		k.fault(at, fmt.Sprintf("%q matches no cluster of this file", glob), "name one of clusters[], or leave it out")
	}
}
