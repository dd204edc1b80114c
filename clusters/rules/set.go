// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"tributary.dev/tributary/syncer"
)

// Most is how many rules a configuration may have: each has a bit of Pod.Matches.
const Most = 64

// Rule decides about the pods that it matches. See docs/rules.md.
type Rule struct {
	// Name names the rule in explanations: a DNS label, unique.
	Name string `json:"name"`
	// Clusters are names or globs of the members that the rule is for. Empty means all.
	Clusters []string `json:"clusters"`
	// Namespaces are names or globs of namespaces. Empty means all.
	Namespaces []string `json:"namespaces"`
	// ServiceSelector is a label selector of the members' Services. Empty selects all.
	ServiceSelector string `json:"serviceSelector"`
	// When is a condition in CEL about `pod`, as in the API, and `cluster`, the member's
	// name.
	When string `json:"when"`
	// Then is what a pod that matches counts as: `Ready`, `NotReady` (a reserve), `Absent`
	// or `Upstream`.
	Then string `json:"then"`
}

// outcomes are what a rule can say.
var outcomes = map[string]syncer.Then{
	"Ready": syncer.ThenReady, "NotReady": syncer.ThenNotReady, "Absent": syncer.ThenAbsent, "Upstream": syncer.ThenUpstream,
}

// Program is the rules of a configuration, compiled.
type Program struct {
	rules []compiledRule
	then  []syncer.Then
}

// compiledRule is one of them, with its bit of Pod.Matches.
type compiledRule struct {
	Rule
	bit      uint64
	program  cel.Program
	services labels.Selector
}

// Compile compiles the rules under a field, and returns all that is wrong with what only
// it can judge: their number, when and then. The rest has been validated before.
func Compile(at *field.Path, rules []Rule) (*Program, field.ErrorList) {
	if len(rules) > Most {
		return nil, field.ErrorList{field.TooMany(at, len(rules), Most)}
	}
	p := &Program{}
	var faults field.ErrorList
	for i, r := range rules {
		program, wrong := compile(r.When)
		if when := at.Index(i).Child("when"); r.When == "" {
			faults = append(faults, field.Required(when, "write a condition in CEL; docs/rules.md has examples"))
		} else {
			for _, text := range wrong {
				faults = append(faults, field.Invalid(when, field.OmitValueType{}, text))
			}
		}
		then, known := outcomes[r.Then]
		if !known {
			faults = append(faults, field.NotSupported(at.Index(i).Child("then"), r.Then, slices.Sorted(maps.Keys(outcomes))))
		}
		p.rules = append(p.rules, compiledRule{r, 1 << i, program, Selector(r.ServiceSelector)})
		p.then = append(p.then, then)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return p, nil
}

// For is the rules of one member.
func (p *Program) For(member string) *Set {
	s := &Set{member: types.String(member), program: p}
	var said []any
	for i := range p.rules {
		if r := &p.rules[i]; len(r.Clusters) == 0 || MatchesAny(r.Clusters, member) {
			s.rules = append(s.rules, r)
			said = append(said, i, r.Rule)
		}
	}
	id, _ := json.Marshal(said) // texts and numbers always marshal
	s.id = string(id)
	return s
}

// Set is the rules of one member. It is never changed, so all methods are safe for concurrent
// use.
type Set struct {
	member  types.String
	id      string
	program *Program
	rules   []*compiledRule
}

// ID is what the rules say, and which bits they have, as one comparable text: two Sets of
// one member with equal IDs match the same pods.
func (s *Set) ID() string { return s.id }

// Empty reports whether no rule is for the member.
func (s *Set) Empty() bool { return len(s.rules) == 0 }

// Match returns which rules match a pod, bit i for rule i of the configuration. One that
// fails on the pod does not match it, and neither does one for which the others before it have
// left nothing of what all may cost. The pod is neither changed nor retained.
func (s *Set) Match(pod *corev1.Pod) (matches uint64) {
	sees := map[string]any{varPod: podValue(pod), varCluster: s.member}
	left := uint64(perObjectLimit)
	for _, r := range s.rules {
		if left == 0 || len(r.Namespaces) > 0 && !MatchesAny(r.Namespaces, pod.Namespace) {
			continue
		}
		value, details, err := r.program.Eval(sees)
		if cost := details.ActualCost(); cost != nil {
			left -= min(*cost, left)
		}
		if err == nil && value == types.True {
			matches |= r.bit
		}
	}
	return matches
}

// Applies returns which rules are for a Service.
func (s *Set) Applies(svc *syncer.Service) (applies uint64) {
	for _, r := range s.rules {
		if (len(r.Namespaces) == 0 || MatchesAny(r.Namespaces, svc.Namespace)) && r.services.Matches(labels.Set(svc.Labels)) {
			applies |= r.bit
		}
	}
	return applies
}

// Then is what each rule of the configuration says, by its index. Read-only.
func (s *Set) Then() []syncer.Then { return s.program.then }

// Selector is a label selector that has been validated.
func Selector(text string) labels.Selector {
	if out, err := labels.Parse(text); err == nil {
		return out
	}
	return labels.Nothing()
}

// MatchesAny reports whether a name matches one of some valid globs. A slash is a character
// like any other: in path.Match no wildcard matches it.
func MatchesAny(globs []string, name string) bool {
	name = strings.ReplaceAll(name, "/", "\x00")
	return slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(strings.ReplaceAll(glob, "/", "\x00"), name)
		return err == nil && matched
	})
}
