// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

type spans []Span

// concerns reports whether a span of the kinds covers a member at a time. Spans without a
// member cover all.
func (s spans) concerns(cluster string, at time.Duration, kinds ...SpanKind) bool {
	return slices.ContainsFunc(s, func(x Span) bool {
		return (x.Cluster == "" || x.Cluster == cluster) && slices.Contains(kinds, x.Kind) && x.covers(at)
	})
}

// suspending are the kinds of spans in which a member's changes need not be published.
var suspending = []SpanKind{Blind, Doubt, Free, ProductDown, IngressDown}

// suspends reports whether a member's changes need not be published during the span.
func (s Span) suspends(cluster string) bool {
	return (s.Cluster == "" || s.Cluster == cluster) && slices.Contains(suspending, s.Kind)
}

// since returns the oldest state that a write may follow from: a bound ago, extended over
// every span in which events may not arrive.
func (s spans) since(cluster string, at, bound time.Duration) time.Duration {
	from := at - bound
	for moved := true; moved; {
		moved = false
		for _, x := range s {
			if x.suspends(cluster) && x.From <= at && x.To >= from && x.From-bound < from {
				from, moved = x.From-bound, true
			}
		}
	}
	return max(0, from)
}

// settled returns the first time at which a bound has passed without a suspending span.
func (s spans) settled(cluster string, from, bound time.Duration) time.Duration {
	for moved := true; moved; {
		moved = false
		for _, x := range s {
			if x.suspends(cluster) && x.From <= from+bound && x.To > from {
				from, moved = x.To, true
			}
		}
	}
	return from + bound
}
