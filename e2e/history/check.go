// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Law is the name of an invariant.
type Law string

// The laws; see the comment of the package.
const (
	NoPhantom Law = "NOPHANTOM"
	NoWipe    Law = "NOWIPE"
	Isolated  Law = "ISOLATED"
	Converged Law = "CONV"
	Owned     Law = "OWNED"
	Zero      Law = "ZERO"
)

// Violation is a breach of a law at a point in time.
type Violation struct {
	Law Law
	At  time.Duration
	// Text says what happened and why that is wrong.
	Text string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.3f s: %s", v.Law, v.At.Seconds(), v.Text)
}

// Settings are the delays that the laws allow.
type Settings struct {
	// Slack is how much later the recorder may see a change of a member than
	// tributary does. Default 2 s: both are processes on one busy machine.
	Slack time.Duration
	// Bound is how long a change may take to be published while nothing is broken, and
	// how old the state may be that a write follows from. Default 10 s.
	Bound time.Duration
	// Serving are replicas that may never lose their last ready endpoint, whatever their
	// members have.
	Serving []Key
}

func (s Settings) withDefaults() Settings {
	s.Slack, s.Bound = cmp.Or(s.Slack, 2*time.Second), cmp.Or(s.Bound, 10*time.Second)
	return s
}

// Report is what Check found.
type Report struct {
	Violations []Violation
	// Facts is the number of different facts, Changes how often the ingress cluster
	// began or ceased to show one.
	Facts, Changes int
	// Worst is the longest time by member that a change took to be published, outside
	// of the spans in which that could not be expected.
	Worst map[string]time.Duration
	// Writes counts tributary's successful writes in the ingress cluster.
	Writes int
}

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d facts, %d changes shown, %d writes", r.Facts, r.Changes, r.Writes)
	for _, name := range slices.Sorted(maps.Keys(r.Worst)) {
		fmt.Fprintf(&b, ", worst staleness of %s %.3f s", name, r.Worst[name].Seconds())
	}
	fmt.Fprintf(&b, ", %d violations", len(r.Violations))
	const most = 30
	for i, v := range r.Violations {
		if i == most {
			fmt.Fprintf(&b, "\n… and %d more", len(r.Violations)-most)
			break
		}
		b.WriteString("\n" + v.String())
	}
	return b.String()
}

// checker checks one history against the laws.
type checker struct {
	h     *History
	s     Settings
	r     *replay
	views *views
	// crowded are replicas with more endpoints than fit into Endpoints, foreign those
	// whose Service was somebody else's at some time.
	crowded, foreign map[Key]bool
	spans            spans
	report           *Report
}

// Check replays a history and returns every breach of a law.
func Check(h *History, s Settings) *Report {
	c := &checker{
		h: h, s: s.withDefaults(), r: replayed(h), views: viewsOf(h), spans: spans(h.Spans), crowded: map[Key]bool{}, foreign: map[Key]bool{},
		report: &Report{Worst: map[string]time.Duration{}},
	}
	lines := c.r.sorted()
	c.crowd(lines)
	for i := range h.Events {
		if e := &h.Events[i]; e.Cluster == h.Ingress && e.Kind == Service && e.Object != nil && !h.Installation.owns(e.Object) {
			c.foreign[e.Key] = true
		}
	}
	for _, l := range lines {
		c.report.Facts++
		c.report.Changes += len(l.shown)
		if !c.judged(l) {
			continue
		}
		c.causes(l)
		if !c.foreign[l.Replica] {
			c.timely(l)
			c.final(l)
		}
	}
	c.emptied(lines)
	c.leftovers()
	c.trespasses()
	c.audit()
	slices.SortStableFunc(c.report.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return c.report
}

func (c *checker) violated(law Law, at time.Duration, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{Law: law, At: at, Text: fmt.Sprintf(format, args...)})
}

// crowd finds the replicas that ever had more pods than fit into Endpoints.
func (c *checker) crowd(lines []*line) {
	pods := map[Key]map[string]bool{}
	for _, l := range lines {
		if pods[l.Replica] == nil {
			pods[l.Replica] = map[string]bool{}
		}
		pods[l.Replica][l.UID] = true
	}
	for replica, uids := range pods {
		c.crowded[replica] = len(uids) > capacity
	}
}

// judged reports whether the oracle has an opinion on a fact.
func (c *checker) judged(l *line) bool {
	if l.UID == "" {
		return false // hand-written in a member
	}
	return l.Kind != Endpoints || !c.crowded[l.Replica]
}
