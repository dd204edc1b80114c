// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/next/syncer"
)

// Most is how many rules there may be: one bit each.
const Most = 64

// Rule is one rule as the configuration has it.
type Rule struct {
	// Name is unique among the rules.
	Name string
	// Clusters and Namespaces are globs; empty means all. ServiceSelector is a label
	// selector of Services; empty means all.
	Clusters, Namespaces []string
	ServiceSelector      string
	// When is the expression.
	When string
	Then syncer.Then
}

// Fault is what is wrong with the expression of a rule.
type Fault struct {
	// Rule is its index.
	Rule int
	// Text names the place in the expression where it can, what is wrong, and what helps.
	Text string
}

// Program is the rules of a configuration, compiled.
type Program struct{}

// Compile compiles at most Most rules and returns all that is wrong with their
// expressions. What else a rule says has been validated before.
func Compile(rules []Rule) (*Program, []Fault) { return nil, nil }

// For is the rules of one member; nil if there are none. A nil Program has none.
func (p *Program) For(member string) *Set { return nil }

// Set is the rules of one member. A nil Set has none. All methods are safe for
// concurrent use.
type Set struct{}

// ID is what the rules say, as one comparable text: two Sets with equal IDs match the
// same pods. Empty for a nil Set.
func (s *Set) ID() string { return "" }

// Match returns which rules match a pod, bit i for rule i of the configuration, and on
// how many the pod failed: these do not match. The pod is neither changed nor kept.
func (s *Set) Match(pod *corev1.Pod) (matches uint64, failed int) { return 0, 0 }

// Applies returns which rules are for a Service.
func (s *Set) Applies(svc *syncer.Service) uint64 { return 0 }

// Then is what each rule of the configuration says, by its index.
func (s *Set) Then() []syncer.Then { return nil }

// Names are the names of all rules of the configuration, by index.
func (s *Set) Names() []string { return nil }

// Status says how a rule fares in a member.
type Status struct {
	Name string
	// Evaluations and Errors count since the rules were read.
	Evaluations, Errors uint64
	// LastError is why it last failed on a pod; empty if it never did.
	LastError string
}

// Status says how each rule of the member fares, in their order.
func (s *Set) Status() []Status { return nil }
