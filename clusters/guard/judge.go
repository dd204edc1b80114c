// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

// Loss is what a list would take from a member if it were believed.
type Loss struct {
	// Before counts the member's ready endpoints, held ones included.
	Before int
	// Lost counts those of them that would go with nothing in their place, Emptied
	// the replicas that would have none left from this member.
	Lost, Emptied int
	// Recent counts what earlier lists took within Window.
	Recent int
	// Empty is true for a list that shows no object at all.
	Empty bool
}

// Verdict is what becomes of the objects that a list lacks.
type Verdict int

// The verdicts, mildest first.
const (
	// Pass: they go.
	Pass Verdict = iota
	// Confirm: they stay until another list lacks them too.
	Confirm
	// Hold: they stay until they are seen again, or an operator lets them go.
	Hold
)

// String names the verdict.
func (v Verdict) String() string { return [...]string{"pass", "confirm", "hold"}[v] }

// Judge is the rule for lists. A list that takes no ready endpoint passes. An
// empty one is believed by nobody: it is what a wrong proxy, a wrong filter and a
// wrong restore answer. What exceeds the limits, or leaves a replica without
// endpoints, waits for a second look; beyond ConfirmPercent a second look at the
// same mistake would not help.
func (l Limits) Judge(x Loss) Verdict {
	lost, before := x.Lost+x.Recent, x.Before+x.Recent
	switch {
	case !l.Lists || x.Lost <= 0:
		return Pass
	case x.Empty || l.over(lost, before, l.ConfirmPercent):
		return Hold
	case x.Emptied > 0 || l.over(lost, before, l.Percent):
		return Confirm
	}
	return Pass
}

// JudgeStart is the rule for the first complete lists of a member of which
// endpoints stand in the ingress cluster from before this process started. What
// stands may be days old, so even a great difference, or an empty list where there
// were few, is only a reason to look twice, as what exceeds the limits or leaves a
// replica without endpoints is at any time; that nothing is left of many endpoints is
// not believed.
func (l Limits) JudgeStart(x Loss) Verdict {
	switch {
	case !l.Lists || x.Lost <= 0:
		return Pass
	case x.Lost > l.MinEndpoints && (x.Empty || x.Lost >= x.Before):
		return Hold
	case x.Empty || x.Emptied > 0 || l.over(x.Lost, x.Before, l.Percent):
		return Confirm
	}
	return Pass
}
