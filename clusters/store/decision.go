// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

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

// Decision is what rules want of a pod of a Service.
type Decision struct {
	// Rule is the name of the rule that matched; empty if none did: then Then is Upstream.
	Rule string
	Then Outcome
}

// none is the decision where no rule matches.
var none = Decision{Then: Upstream}

// Kept is what rules need of an object beside what the Store has. The zero value is of
// an object of which nothing is needed. It is comparable.
type Kept struct {
	Text string
	// Since tells what was asked for when the object was decoded.
	Since uint32
}

// KeptSince is what Kept.Since of a Pod, and of a Service, must be at least for rules to
// be asked about it: it rises whenever they need more. 0 needs nothing.
type KeptSince struct{ Pod, Service uint32 }

// Subject is a pod of a Service, as far as rules know it.
type Subject struct {
	Pod, Service Kept
	// Namespace and Labels are those of the Service; read-only.
	Namespace string
	Labels    map[string]string
	// Node and Zone are where the pod runs. Zoneless is true where the zone is not known:
	// nodes cannot be read, or the member does not show that one.
	Node, Zone string
	Zoneless   bool
}

// Decider decides about pods by the rules of a configuration.
type Decider interface {
	// Decide returns, in their order, those of the held rules that match, and the first
	// other that does; where none does, a Decision without a rule stands at the end. held
	// may be nil: none is. It is a function of its arguments, safe for concurrent use, and
	// does not call the Store.
	Decide(in Subject, held func(rule string) bool) []Decision
	// ReadsNode reports whether Node and Zone make a difference; if not they may be left out.
	ReadsNode() bool
	// ReadsService reports whether the Service makes a difference, beside its namespace.
	ReadsService() bool
	// Readies reports whether any pod may be Ready by it.
	Readies() bool
	// ID is the same for two that decide the same about everything.
	ID() string
}
