// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Set is the rules of one member, compiled. A nil Set has no rules. All methods are
// safe for concurrent use.
type Set struct {
	cluster string
	rules   []*compiled
	// pod and service copy what the rules need; nil: nothing.
	pod, service copier

	mu sync.Mutex
	// known are decisions already made; most pods of a Service are alike.
	known map[Input]Decision
}

// maxKnown bounds the decisions that are remembered: they begin anew beyond it.
const maxKnown = 1 << 16

// compiled is one rule. The counters are for metrics.
type compiled struct {
	Rule
	scope
	run             cel.Program
	matches, errors atomic.Uint64
	nanoseconds     atomic.Int64
	lastError       atomic.Pointer[string]
}

// Compile makes the rules of one member from those of a configuration, and returns all
// that is wrong with any of them. Rules for other members are checked and left out.
func Compile(cluster string, rules []Rule) (*Set, []Fault) {
	s := &Set{cluster: cluster, known: map[Input]Decision{}}
	roots := map[string]*paths{varPod: {}, varService: {}}
	var faults []Fault
	seen := map[string]int{}
	for i := range rules {
		wrong, at := rules[i].validate(i, seen)
		run, tree, fault := program(rules[i].When)
		if fault != nil {
			fault.Rule, fault.Field = i, "when"
			wrong = append(wrong, *fault)
		}
		faults = append(faults, wrong...)
		if len(wrong) > 0 || !matchesAny(rules[i].Clusters, cluster) {
			continue
		}
		readPaths(tree, roots)
		s.rules = append(s.rules, &compiled{Rule: rules[i], scope: at, run: run})
	}
	if len(faults) > 0 || len(s.rules) == 0 {
		return nil, faults
	}
	s.pod = copierOf(reflect.TypeFor[corev1.Pod](), roots[varPod])
	s.service = copierOf(reflect.TypeFor[corev1.Service](), roots[varService])
	return s, nil
}

// Input is one pod of one Service, as far as rules know it.
type Input struct {
	Pod, Service Kept
	Node         Node
	// Namespace and Labels are those of the Service; Labels are rendered, so that an
	// Input is comparable.
	Namespace, Labels string
}

// InputOf makes an Input.
func InputOf(pod, service Kept, node Node, namespace string, serviceLabels map[string]string) Input {
	return Input{pod, service, node, namespace, labels.Set(serviceLabels).String()}
}

// Decision is what the rules want of a pod.
type Decision struct {
	// Rule is the name of the rule that matched; empty if none did: then Then is Upstream.
	Rule string
	Then Outcome
}

// Decide asks the rules in their order; the first that matches decides.
func (s *Set) Decide(in Input) Decision {
	if s == nil {
		return Decision{Then: Upstream}
	}
	s.mu.Lock()
	decision, known := s.known[in]
	s.mu.Unlock()
	if known {
		return decision
	}
	decision = s.evaluate(in)
	s.mu.Lock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[in] = decision
	s.mu.Unlock()
	return decision
}

// evaluate runs the expressions.
func (s *Set) evaluate(in Input) Decision {
	selected, err := labels.ConvertSelectorToLabelsMap(in.Labels)
	if err != nil { // labels that the API accepts are always read back
		return Decision{Then: Upstream}
	}
	var vars map[string]any
	left := uint64(perObjectLimit)
	for _, r := range s.rules {
		if !r.scope.matches(in.Namespace, selected) {
			continue
		}
		if vars == nil {
			if vars, err = s.variables(in); err != nil {
				return Decision{Then: Upstream}
			}
		}
		if r.decides(vars, &left) {
			return Decision{r.Name, r.Then}
		}
	}
	return Decision{Then: Upstream}
}

func (s *Set) variables(in Input) (map[string]any, error) {
	var pod corev1.Pod
	if err := pod.Unmarshal(in.Pod.bytes()); err != nil {
		return nil, err
	}
	var service corev1.Service
	if err := service.Unmarshal(in.Service.bytes()); err != nil {
		return nil, err
	}
	return map[string]any{varPod: &pod, varService: &service, varNode: &in.Node, varCluster: s.cluster}, nil
}

// decides reports whether a rule matches. One that fails does not.
func (r *compiled) decides(vars map[string]any, left *uint64) bool {
	begin := time.Now()
	value, details, err := r.run.Eval(vars)
	r.nanoseconds.Add(int64(time.Since(begin)))
	matches := false
	if err == nil {
		matches, err = truth(value)
	}
	if cost := details.ActualCost(); cost != nil && err == nil {
		if *cost > *left {
			err = fmt.Errorf("the rules together cost more than %d on this pod", perObjectLimit)
		} else {
			*left -= *cost
		}
	}
	if err != nil {
		r.errors.Add(1)
		text := err.Error()
		r.lastError.Store(&text)
		return false
	}
	if matches {
		r.matches.Add(1)
	}
	return matches
}

// RuleStatus says how a rule fares. Evaluations that were remembered do not count
// again.
type RuleStatus struct {
	Name            string
	Matches, Errors uint64
	// Took is the time of all evaluations.
	Took time.Duration
	// LastError is why it last failed on a pod; empty if it never did.
	LastError string
}

// Status says how each rule fares, in their order.
func (s *Set) Status() []RuleStatus {
	if s == nil {
		return nil
	}
	out := make([]RuleStatus, len(s.rules))
	for i, r := range s.rules {
		out[i] = RuleStatus{Name: r.Name, Matches: r.matches.Load(), Errors: r.errors.Load(), Took: time.Duration(r.nanoseconds.Load())}
		if text := r.lastError.Load(); text != nil {
			out[i].LastError = *text
		}
	}
	return out
}
