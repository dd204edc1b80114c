// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"tributary.dev/tributary/syncer"
)

// Most is how many rules a configuration may have: each has a bit of Pod.Matches.
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
	// Text names the place in the expression where it can ("line:column"), what is wrong,
	// and what helps.
	Text string
}

// Program is the rules of a configuration, compiled.
type Program struct {
	rules []rule
	then  []syncer.Then
	names []string
}

// rule is one of them.
type rule struct {
	Rule
	program  cel.Program
	services labels.Selector
}

// Compile compiles at most Most rules and returns all that is wrong with their
// expressions. What else a rule says has been validated before.
func Compile(rules []Rule) (*Program, []Fault) {
	p := &Program{}
	var faults []Fault
	for i, r := range rules[:min(len(rules), Most)] {
		program, wrong := compile(r.When)
		for _, text := range wrong {
			faults = append(faults, Fault{i, text})
		}
		selector, err := labels.Parse(r.ServiceSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		p.rules = append(p.rules, rule{r, program, selector})
		p.then = append(p.then, r.Then)
		p.names = append(p.names, r.Name)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return p, nil
}

// For is the rules of one member; nil if there are none. A nil Program has none. The
// counts of a Set begin at 0.
func (p *Program) For(member string) *Set {
	if p == nil {
		return nil
	}
	s := &Set{member: types.String(member), program: p}
	var said []any
	for i := range p.rules {
		if r := &p.rules[i]; matchesAny(r.Clusters, member) {
			s.rules = append(s.rules, &counted{rule: r, bit: 1 << i})
			said = append(said, i, r.Rule)
		}
	}
	if len(s.rules) == 0 {
		return nil
	}
	id, err := json.Marshal(said)
	if err != nil { // texts and numbers always marshal
		return nil
	}
	s.id = string(id)
	return s
}

// Set is the rules of one member. A nil Set has none. All methods are safe for concurrent
// use.
type Set struct {
	member  types.String
	id      string
	program *Program
	rules   []*counted
}

// counted is one rule, with what is told of it.
type counted struct {
	*rule
	bit                 uint64
	evaluations, errors atomic.Uint64
	lastError           atomic.Pointer[string]
}

// ID is what the rules say, and which bits they have, as one comparable text: two Sets of
// one member with equal IDs match the same pods. Empty for a nil Set.
func (s *Set) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Match returns which rules match a pod, bit i for rule i of the configuration, and on how
// many the pod failed: these do not match. The pod is neither changed nor kept.
func (s *Set) Match(pod *corev1.Pod) (matches uint64, failed int) {
	if s == nil || pod == nil {
		return 0, 0
	}
	sees := map[string]any{varPod: podValue(pod), varCluster: s.member}
	left := uint64(perObjectLimit)
	for _, r := range s.rules {
		if !matchesAny(r.Namespaces, pod.Namespace) {
			continue
		}
		is, cost, err := r.ask(sees, left)
		left -= min(cost, left)
		r.evaluations.Add(1)
		switch {
		case err != nil:
			failed++
			r.fail(err.Error())
		case is:
			matches |= r.bit
		}
	}
	return matches, failed
}

// ask runs the expression, of which all on a pod may cost no more than left.
func (r *counted) ask(sees map[string]any, left uint64) (is bool, cost uint64, err error) {
	if left == 0 {
		return false, 0, fmt.Errorf("the rules together cost more than %d on this pod", perObjectLimit)
	}
	value, details, err := r.program.Eval(sees)
	if spent := details.ActualCost(); spent != nil {
		cost = *spent
	}
	if err != nil {
		return false, cost, err
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return false, cost, fmt.Errorf("came to %s, not to true or false", value.Type().TypeName())
	}
	return bool(truth), cost, nil
}

func (r *counted) fail(text string) {
	r.errors.Add(1)
	const longest = 300 // a pod puts what it likes into an error, such as a missing key
	if len(text) > longest {
		text = strings.Clone(strings.ToValidUTF8(text[:longest], "")) + "…"
	}
	r.lastError.Store(&text)
}

// Applies returns which rules are for a Service.
func (s *Set) Applies(svc *syncer.Service) (applies uint64) {
	if s == nil {
		return 0
	}
	for _, r := range s.rules {
		if matchesAny(r.Namespaces, svc.Namespace) && r.services.Matches(labels.Set(svc.Labels)) {
			applies |= r.bit
		}
	}
	return applies
}

// Then is what each rule of the configuration says, by its index. Read-only.
func (s *Set) Then() []syncer.Then {
	if s == nil {
		return nil
	}
	return s.program.then
}

// Names are the names of all rules of the configuration, by index. Read-only.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	return s.program.names
}

// Status says how a rule fares in a member.
type Status struct {
	Name string
	// Evaluations and Errors count since the rules were read.
	Evaluations, Errors uint64
	// LastError is why it last failed on a pod; empty if it never did.
	LastError string
}

// Status says how each rule of the member fares, in their order.
func (s *Set) Status() []Status {
	if s == nil {
		return nil
	}
	out := make([]Status, len(s.rules))
	for i, r := range s.rules {
		out[i] = Status{Name: r.Name, Evaluations: r.evaluations.Load(), Errors: r.errors.Load()}
		if text := r.lastError.Load(); text != nil {
			out[i].LastError = *text
		}
	}
	return out
}

// matchesAny reports whether one of the globs matches; no globs match all.
func matchesAny(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, name)
		return err == nil && matched
	})
}
