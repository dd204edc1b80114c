// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"math/bits"
	"net/netip"
	"time"
)

// Grade says how far an endpoint is trusted with traffic. Of several reasons the
// lowest grade counts.
type Grade uint8

// The grades, lowest first.
const (
	// NotReady is never published as ready: its kubelet says so, or it is being deleted.
	NotReady Grade = iota
	// Reserve would be ready but for a doubt; it serves where nobody else does.
	Reserve
	// Ready serves.
	Ready
)

// String names the grade as metrics and explanations do.
func (g Grade) String() string { return [...]string{"not_ready", "reserve", "ready"}[min(g, Ready)] }

// Options are the settings of the rules for one member.
type Options struct {
	// AllowedCIDRs, when not empty, are the only networks whose addresses are
	// accepted; others become Rejections.
	AllowedCIDRs []netip.Prefix
	// HoldSilentNodes is how long a pod whose node fell silent stays Ready; after it, and
	// where it is zero at once, the pod is Reserve.
	HoldSilentNodes time.Duration
	// StableFor is how long a pod that was ready before, and comes back, is Reserve.
	StableFor time.Duration
	// Rules are what the configuration says of the pods of the Service at hand.
	Rules Rules
	// Now is the present by the member's clock, which the conditions' times are by.
	Now time.Time
}

// Then is what a rule of the configuration says of the pods that it matches.
type Then uint8

// What a rule can say.
const (
	// ThenNothing: no rule says anything.
	ThenNothing Then = iota
	// ThenReady: the pod is ready though its conditions say no. No other doubt is lifted
	// by it, and neither are deletion nor the end of the pod.
	ThenReady
	// ThenNotReady: the pod is Reserve at most.
	ThenNotReady
	// ThenAbsent: the pod is no endpoint.
	ThenAbsent
	// ThenUpstream: as without rules; no later rule is evaluated.
	ThenUpstream
)

// Rules are what the configuration says of the pods of one Service: bit i of
// Applies is set where rule i applies to the Service, and the first rule whose bit
// is set both there and in Pod.Matches decides.
type Rules struct {
	Applies uint64
	Then    []Then
}

// Decide returns what the first rule that matches a pod says, and which it is: -1 where none
// does.
func (r Rules) Decide(pod *Pod) (then Then, rule int) {
	if first := bits.TrailingZeros64(pod.Matches & r.Applies); first < len(r.Then) {
		return r.Then[first], first
	}
	return ThenNothing, -1
}

// judgement is how far one pod is trusted as an endpoint, whatever its addresses and ports.
type judgement struct {
	grade Grade
	// ready and serving are the conditions when the grade's class is published.
	ready, serving bool
	// next is the moment at which time alone changes the grade; zero: none does.
	next time.Time
	doubt
}

// doubt is the reason for a grade that is not Ready; empty for one that is.
type doubt string

const (
	doubtTerminating doubt = "is being deleted"
	doubtUpstream    doubt = "not ready: its condition Ready is not True"
	doubtSilent      doubt = "in reserve: its node stopped reporting"
	doubtFresh       doubt = "in reserve: it was not ready, and has been ready again for less than stableFor"
	doubtRule        doubt = "in reserve: a rule says that it is not ready"
)

// judge applies the rows of T6 that concern one pod that is listed. publish is the Service's
// publishNotReadyAddresses: with it neither the readiness of a pod nor doubts about it
// count.
func judge(pod *Pod, publish bool, o *Options) judgement {
	then, _ := o.Rules.Decide(pod)
	if pod.Terminating {
		return judgement{ready: publish, serving: pod.Ready, doubt: doubtTerminating}
	}
	j := judgement{grade: Ready, serving: pod.Ready}
	switch {
	case publish:
	case pod.Ready && pod.WasReady:
		j.until(pod, o.StableFor, o.Now, Reserve, Ready, doubtFresh)
	case pod.Ready:
	case pod.NodeSilent:
		j.until(pod, o.HoldSilentNodes, o.Now, Ready, Reserve, doubtSilent)
		j.serving = true
	case then != ThenReady:
		return judgement{doubt: doubtUpstream}
	}
	j.serving = j.serving || then == ThenReady
	if then == ThenNotReady {
		j.grade, j.doubt, j.next = Reserve, doubtRule, time.Time{}
	}
	j.ready, j.serving = true, j.serving || j.grade == Reserve
	return j
}

// until grades a pod by the time since its condition Ready changed: before while that is
// shorter than a span, after from then on. The lower of the two has the reason.
func (j *judgement) until(pod *Pod, span time.Duration, now time.Time, before, after Grade, why doubt) {
	j.grade = after
	if end := time.Unix(pod.ReadySince, 0).Add(span); span > 0 && pod.ReadySince != 0 && now.Before(end) {
		j.grade, j.next = before, end
	}
	if j.grade == Reserve {
		j.doubt = why
	}
}

// GradeOf is the grade that Compute assigns to a pod of a Service, as far as the pod alone tells:
// its ports and its address may still exclude it. ok is false for one that is no endpoint. publish
// is the Service's PublishNotReadyAddresses.
func GradeOf(pod *Pod, publish bool, o *Options) (grade Grade, ok bool) {
	if ok, _ := listed(pod, o.Rules); !ok {
		return NotReady, false
	}
	return judge(pod, publish, o).grade, true
}
