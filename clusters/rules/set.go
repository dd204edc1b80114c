// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/store"
)

// Set is the rules of one member. All methods are safe for concurrent use.
type Set struct {
	cluster string
	id      string
	rules   []*counted
	// pod, service and node are what the rules read of them.
	pod, service, node *paths

	mu sync.Mutex
	// asked is what came of asking, by subject: most pods of an application are one.
	asked map[asked][]outcome
}

var _ store.Decider = (*Set)(nil)

// counted is one rule, with what is told of it.
type counted struct {
	*rule
	evaluations, errors, cost atomic.Uint64
	nanoseconds               atomic.Int64
	lastError                 atomic.Pointer[string]
}

// ID implements store.Decider.
func (s *Set) ID() string { return s.id }

// ReadsNode implements store.Decider.
func (s *Set) ReadsNode() bool { return s.node.read() }

// Decide implements store.Decider: the rules are asked in their order, and the first
// that matches and is not held decides. One that fails on the pod does not match. Pods of
// which the same is kept are asked about once.
func (s *Set) Decide(in store.Subject, held func(rule string) bool) []store.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcomes := s.outcomes(&in)
	var vars map[string]any
	var matched []store.Decision
	left, decided := uint64(perObjectLimit), false
	for i, r := range s.rules {
		isHeld := held != nil && held(r.Name)
		if decided && !isHeld || !r.concerns(&in) {
			continue
		}
		switch {
		case outcomes[i] == failed:
			r.errors.Add(1)
		case outcomes[i] == unasked:
			if vars == nil {
				vars = s.variables(&in)
			}
			outcomes[i] = r.ask(vars, &left)
		}
		if outcomes[i] == matches {
			matched = append(matched, store.Decision{Rule: r.Name, Then: r.Then})
			decided = decided || !isHeld
		}
	}
	if !decided {
		matched = append(matched, store.Decision{Then: store.Upstream})
	}
	return matched
}

// outcome is what came of asking a rule about a subject.
type outcome uint8

const (
	unasked outcome = iota
	matches
	matchesNot
	failed
)

// asked is what rules see of a subject.
type asked struct {
	pod, service store.Kept
	node, zone   string
}

// mostAsked bounds what is remembered.
const mostAsked = 1024

// outcomes are what is known of a subject, by rule.
func (s *Set) outcomes(in *store.Subject) []outcome {
	of := asked{pod: in.Pod, service: in.Service}
	if s.ReadsNode() {
		of.node, of.zone = in.Node, in.Zone
	}
	if is := s.asked[of]; is != nil {
		return is
	}
	if s.asked == nil || len(s.asked) >= mostAsked {
		s.asked = map[asked][]outcome{}
	}
	is := make([]outcome, len(s.rules))
	s.asked[of] = is
	return is
}

// unread stands for what no rule reads. It is never changed: expressions cannot.
var unread struct {
	pod     corev1.Pod
	service corev1.Service
}

// variables are what expressions see. What is kept is what KeepPod and KeepService
// made; anything else reads as an object of which nothing is known.
func (s *Set) variables(in *store.Subject) map[string]any {
	pod, service := &unread.pod, &unread.service
	if s.pod.read() {
		pod = new(corev1.Pod)
		_ = pod.Unmarshal(content(in.Pod))
	}
	if s.service.read() {
		service = new(corev1.Service)
		_ = service.Unmarshal(content(in.Service))
	}
	return map[string]any{
		varPod: pod, varService: service, varNode: &Node{Name: in.Node, Zone: in.Zone}, varCluster: s.cluster,
	}
}

// ask runs the expression. left is what it may cost, and goes down by what it does.
func (r *counted) ask(vars map[string]any, left *uint64) outcome {
	begin := time.Now()
	value, details, err := r.run.Eval(vars)
	r.nanoseconds.Add(int64(time.Since(begin)))
	r.evaluations.Add(1)
	out := matchesNot
	if err == nil {
		var is bool
		if is, err = truth(value); is {
			out = matches
		}
	}
	if err != nil {
		out = failed
	}
	if cost := details.ActualCost(); cost != nil {
		r.cost.Add(*cost)
		if *cost > *left { // which another Service may have rules enough left for
			out, err = unasked, fmt.Errorf("the rules together cost more than %d on this pod", perObjectLimit)
		}
		*left -= min(*left, *cost)
	}
	if err != nil {
		r.errors.Add(1)
		text := shortened(err.Error())
		r.lastError.Store(&text)
	}
	return out
}

// shortened is an error without most of what a pod put into it, such as a missing key.
func shortened(text string) string {
	const longest = 300
	if len(text) <= longest {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:longest], "")) + "…"
}

// Status says how a rule fares.
type Status struct {
	Name string
	Then store.Outcome
	// Evaluations and Errors count since the rules were read; Cost sums up what
	// Kubernetes calls the cost of an expression, Took the time.
	Evaluations, Errors, Cost uint64
	Took                      time.Duration
	// LastError is why it last failed on a pod; empty if it never did.
	LastError string
}

// Status says how each rule fares, in their order. A nil Set has none.
func (s *Set) Status() []Status {
	if s == nil {
		return nil
	}
	out := make([]Status, len(s.rules))
	for i, r := range s.rules {
		out[i] = Status{
			Name: r.Name, Then: r.Then, Evaluations: r.evaluations.Load(), Errors: r.errors.Load(), Cost: r.cost.Load(),
			Took: time.Duration(r.nanoseconds.Load()),
		}
		if text := r.lastError.Load(); text != nil {
			out[i].LastError = *text
		}
	}
	return out
}
