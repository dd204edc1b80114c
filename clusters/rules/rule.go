// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Outcome is what a rule wants of a pod that it matches.
type Outcome string

// The outcomes.
const (
	// Ready: the pod is ready, unless it is being deleted or has finished.
	Ready Outcome = "Ready"
	// NotReady: the pod is an endpoint that is not ready.
	NotReady Outcome = "NotReady"
	// Absent: the pod is no endpoint.
	Absent Outcome = "Absent"
	// Upstream: as Kubernetes has it; no later rule is asked.
	Upstream Outcome = "Upstream"
)

// Outcomes lists them, in the order of the documentation.
func Outcomes() []Outcome { return []Outcome{Ready, NotReady, Absent, Upstream} }

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
	Then Outcome
}

// Fault is what is wrong with a rule.
type Fault struct {
	// Rule is its index, Field the field's name.
	Rule  int
	Field string
	// Line and Column are where in the expression, from 1; 0 for the whole field.
	Line, Column int
	// Message and Remedy are for people.
	Message, Remedy string
}

// scope is where a rule applies.
type scope struct {
	namespaces []string
	services   labels.Selector
}

func (s *scope) matches(namespace string, service labels.Set) bool {
	return matchesAny(s.namespaces, namespace) && s.services.Matches(service)
}

// matchesAny reports whether one of the globs matches; no globs match all.
func matchesAny(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, name)
		return err == nil && matched
	})
}

// validate checks everything but the expression.
func (r *Rule) validate(index int, seen map[string]int) (out []Fault, at scope) {
	fault := func(field, message, remedy string) {
		out = append(out, Fault{Rule: index, Field: field, Message: message, Remedy: remedy})
	}
	switch first, again := seen[r.Name]; {
	case r.Name == "":
		fault("name", "must be given", "name the rule; explain, records and metrics show the name")
	case again:
		fault("name", fmt.Sprintf("%q names rule %d as well", r.Name, first), "choose another name")
	default:
		seen[r.Name] = index
	}
	for _, list := range []struct {
		field string
		globs []string
	}{{"clusters", r.Clusters}, {"namespaces", r.Namespaces}} {
		for _, glob := range list.globs {
			if _, err := path.Match(glob, ""); err != nil || glob == "" {
				fault(list.field, fmt.Sprintf("%q is not a glob", glob), "write a name, or a glob such as pay-*")
			}
		}
	}
	if !slices.Contains(Outcomes(), r.Then) {
		fault("then", fmt.Sprintf("%q is not known", r.Then), "write one of Ready, NotReady, Absent, Upstream")
	}
	selector, err := labels.Parse(r.ServiceSelector)
	if err != nil {
		fault("serviceSelector", err.Error(), "write a label selector such as app=web,tier!=test")
		selector = labels.Nothing()
	}
	return out, scope{r.Namespaces, selector}
}
