// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
)

// Kind is a kind of object that is recorded.
type Kind string

// The recorded kinds.
const (
	Pod           Kind = "Pod"
	Service       Kind = "Service"
	Endpoints     Kind = "Endpoints"
	EndpointSlice Kind = "EndpointSlice"
)

// Key names an object.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Event is one version of an object as a watch showed it, or its deletion.
type Event struct {
	// At is when it arrived, since the recorder was started.
	At      time.Duration
	Cluster string
	Kind    Kind
	Key     Key
	// Object is a *corev1.Pod, *corev1.Service, *corev1.Endpoints or
	// *discoveryv1.EndpointSlice, nil when it was deleted. It must not be changed.
	Object   metav1.Object
	Revision string
	// Listed marks what a list showed, at the start or after a watch was lost: author
	// and time are unknown.
	Listed bool
	// ByHand marks a change that the test made itself in the ingress cluster.
	ByHand bool
}

// SpanKind is a kind of span.
type SpanKind string

// The kinds of spans.
const (
	// Blind: tributary cannot see the member's current state. Changes there need not
	// be published until the span has ended, and nothing may be removed because of it.
	Blind SpanKind = "blind"
	// Doubt: there is a reason to use the member's endpoints only where nobody else
	// serves. Their conditions may flip and be stale; none may be removed.
	Doubt SpanKind = "doubt"
	// Free: an operator changes the member's share. Only OWNED applies to it.
	Free SpanKind = "free"
	// ProductDown: tributary does not run, or not yet.
	ProductDown SpanKind = "product down"
	// IngressDown: the ingress cluster cannot be written, or not reliably.
	IngressDown SpanKind = "ingress down"
	// Quiet: nothing changes, so nothing may be written.
	Quiet SpanKind = "quiet"
)

// Span is a period of a condition that was caused on purpose.
type Span struct {
	Kind SpanKind
	// Cluster is the member concerned; empty where the kind concerns none.
	Cluster  string
	From, To time.Duration
}

func (s Span) String() string {
	name := string(s.Kind)
	if s.Cluster != "" {
		name += " " + s.Cluster
	}
	return fmt.Sprintf("%s %.3f…%.3f s", name, s.From.Seconds(), s.To.Seconds())
}

func (s Span) covers(at time.Duration) bool { return s.From <= at && at <= s.To }

// History is everything that happened. Check does not change it.
type History struct {
	// Began is the time from which every At is counted.
	Began time.Time
	End   time.Duration
	// Ingress is the name of the ingress cluster, Members are the names of the others.
	Ingress string
	Members []string
	// Events are in order of arrival; those of the first lists come first, at 0.
	Events []Event
	Spans  []Span
	// Writes are the write requests by cluster, from the API servers' audit logs.
	// Without them OWNED and ZERO are not checked.
	Writes map[string][]cluster.Write
	// Installation is the one that is judged; what others own is foreign.
	Installation Installation
	// User is tributary in the audit logs.
	User string
	// Covers reports whether a namespace belongs to this history; nil: all do.
	Covers func(namespace string) bool
}

func (h *History) covers(namespace string) bool { return h.Covers == nil || h.Covers(namespace) }
