// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
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
	// most is what the rules that need not be counted may cost together.
	most uint64

	mu sync.Mutex
	// asked is what came of asking, by subject: most pods of an application are one.
	asked map[asked][]outcome
}

var _ store.Decider = (*Set)(nil)

// counted is one rule, with what is told of it.
type counted struct {
	*rule
	// isPlain is true where what it costs need not be counted about a pod that is no larger
	// than usual: with all such rules it is less than one may.
	isPlain                             bool
	readsZone                           bool
	evaluations, errors, cost, lastCost atomic.Uint64
	nanoseconds                         atomic.Int64
	lastError                           atomic.Pointer[string]
}

// ReadZone names the rules that read the zone of a node. A nil Set has none.
func (s *Set) ReadZone() (names []string) {
	if s != nil {
		for _, r := range s.rules {
			if r.readsZone {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// ID implements store.Decider.
func (s *Set) ID() string { return s.id }

// ReadsNode implements store.Decider.
func (s *Set) ReadsNode() bool { return s.node.read() }

// ReadsService implements store.Decider.
func (s *Set) ReadsService() bool {
	return s.service.read() || slices.ContainsFunc(s.rules, func(r *counted) bool { return !r.services.Empty() })
}

// Readies implements store.Decider.
func (s *Set) Readies() bool {
	return slices.ContainsFunc(s.rules, func(r *counted) bool { return r.Then == store.Ready })
}

// Decide implements store.Decider: the rules are asked in their order, and the first
// that matches and is not held decides. One that fails on the pod does not match. Pods of
// which the same is kept are asked about once.
func (s *Set) Decide(in store.Subject, held func(rule string) bool) []store.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcomes := s.outcomes(&in)
	var seen *view
	var matched []store.Decision
	decided := false
	for i, r := range s.rules {
		isHeld := held != nil && held(r.Name)
		if decided && !isHeld || !r.concerns(&in) {
			continue
		}
		switch {
		case outcomes[i] == failed:
			r.errors.Add(1)
		case r.readsZone && in.Zoneless:
			outcomes[i] = failed
			r.fail(fmt.Sprintf("nodes of this member cannot be read, or node %s is not among them: node.zone is not known", in.Node))
		case outcomes[i] == unasked:
			if seen == nil {
				seen = s.view(&in)
			}
			outcomes[i] = r.ask(seen)
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
	zoneless     bool
}

// What is remembered: so many, none longer than that.
const (
	mostAsked    = 1024
	longestAsked = 4 << 10
)

// outcomes are what is known of a subject, by rule.
func (s *Set) outcomes(in *store.Subject) []outcome {
	of := asked{pod: in.Pod, service: in.Service}
	if s.ReadsNode() {
		of.node, of.zone, of.zoneless = in.Node, in.Zone, in.Zoneless
	}
	if is := s.asked[of]; is != nil {
		return is
	}
	if s.asked == nil || len(s.asked) >= mostAsked {
		s.asked = map[asked][]outcome{}
	}
	is := make([]outcome, len(s.rules))
	if len(in.Pod.Text)+len(in.Service.Text) <= longestAsked {
		s.asked[of] = is
	}
	return is
}

// view is what expressions see of a subject. It implements interpreter.Activation.
type view struct {
	cluster            types.String
	pod, service, node ref.Val
	// had is the most that it has; usual is true for one that is no larger than that. left is
	// what may still be spent on it.
	had   sizes
	usual bool
	left  uint64
}

// view reads what Keeper has written of a subject; what no rule reads is empty.
func (s *Set) view(in *store.Subject) *view {
	pod, service := newReader(in.Pod.Text), newReader(in.Service.Text)
	v := &view{
		cluster: types.String(s.cluster), pod: classOf[corev1.Pod]().read(pod), service: classOf[corev1.Service]().read(service),
		left: perObjectLimit,
	}
	v.had = sizes{max(pod.had.list, service.had.list), max(pod.had.text, service.had.text, uint64(len(in.Node)), uint64(len(in.Zone)))}
	v.usual = v.had.within(sizes{usualList, usualText})
	if v.usual {
		v.left -= s.most
	}
	if s.ReadsNode() {
		v.node = &object{classOf[Node](), []slot{{0, types.String(in.Node)}, {1, types.String(in.Zone)}}}
	}
	return v
}

// ResolveName implements interpreter.Activation.
func (v *view) ResolveName(name string) (any, bool) {
	switch name {
	case varPod:
		return v.pod, true
	case varService:
		return v.service, true
	case varNode:
		return v.node, true
	case varCluster:
		return v.cluster, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (v *view) Parent() interpreter.Activation { return nil }

// everyCost is how often what a rule costs is counted where it need not be; in between it
// is taken for what it was.
const everyCost = 64

// ask runs the expression.
func (r *counted) ask(v *view) outcome {
	if large := (sizes{largeList, largeText}); r.squares && !v.had.within(large) {
		r.fail(fmt.Sprintf("may cost the square of what a pod has, and this one has %d in one list and %d characters in one text; at most %d and %d are allowed then",
			v.had.list, v.had.text, large.list, large.text))
		return failed
	}
	run := r.counting
	if n := r.evaluations.Add(1); r.isPlain && v.usual && n%everyCost != 1 {
		run = r.plain
	}
	begin := time.Now()
	value, details, err := run.Eval(v)
	r.nanoseconds.Add(int64(time.Since(begin)))
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
		r.lastCost.Store(*cost)
		if !r.isPlain || !v.usual {
			if *cost > v.left { // which another Service may have rules enough left for
				out, err = unasked, fmt.Errorf("the rules together cost more than %d on this pod", perObjectLimit)
			}
			v.left -= min(v.left, *cost)
		}
	}
	r.cost.Add(r.lastCost.Load())
	if err != nil {
		r.fail(err.Error())
	}
	return out
}

func (r *counted) fail(text string) {
	r.errors.Add(1)
	text = shortened(text)
	r.lastError.Store(&text)
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
