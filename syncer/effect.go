// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import "slices"

// Effect says what a change can do to the endpoints of a Service. The greater
// of two effects is the effect of both.
type Effect uint8

// The effects, weakest first.
const (
	// None: no endpoint can differ, so nothing needs to be recomputed.
	None Effect = iota
	// Addition: an address may appear or become ready, or a detail may change.
	Addition
	// Removal: an address may leave or become unready; it must not wait.
	Removal
)

// String names the effect, for records and tests.
func (e Effect) String() string { return [...]string{"none", "addition", "removal"}[min(e, Removal)] }

// PodEffect returns what the change from old to new can do to the endpoints of
// a Service that selects the pod before and after, by the rules that apply to it. A pod that
// is not there, or not selected, is nil: a deletion and labels that left the selector are
// PodEffect(old, nil, rules). Labels are not compared here, but for the zone; whoever knows
// the selectors does that.
//
// Unlike upstream's filter (podEndpointsChanged in k8s.io/endpointslice/util)
// it sees phase, UID and nodeName, and compares the fact of deletion instead of
// a pointer, so further updates of a terminating pod are None.
func PodEffect(old, updated *Pod, rules Rules) Effect {
	was, then := listed(old, rules)
	is, thenNow := listed(updated, rules)
	switch {
	case !was && !is:
		return None
	case !was:
		return Addition
	case !is:
		return Removal
	}
	switch {
	case old.UID != updated.UID, !slices.EqualFunc(old.IPs, updated.IPs, samePodIP), !slices.Equal(old.Ports, updated.Ports):
		return Removal
	case old.Ready && !updated.Ready, !old.Terminating && updated.Terminating,
		old.NodeSilent && !updated.NodeSilent && !updated.Ready:
		return Removal
	case then != thenNow && thenNow != ThenReady:
		return Removal
	case then != thenNow, old.Ready != updated.Ready, old.Terminating != updated.Terminating,
		old.NodeSilent != updated.NodeSilent, old.WasReady != updated.WasReady,
		old.ReadySince != updated.ReadySince && (updated.WasReady || updated.NodeSilent),
		old.NodeName != updated.NodeName, old.Hostname != updated.Hostname,
		old.Subdomain != updated.Subdomain, old.Labels != updated.Labels && old.Zone() != updated.Zone():
		return Addition
	}
	return None
}

// samePodIP ignores how an address was spelt.
func samePodIP(a, b PodIP) bool {
	return a.Addr == b.Addr && (a.Addr.IsValid() || a.Raw == b.Raw)
}

// listed reports whether a pod is in any endpoint list of its Services, and what rules say.
func listed(p *Pod, rules Rules) (bool, Then) {
	if p == nil || p.Terminal || len(p.IPs) == 0 {
		return false, ThenNothing
	}
	then, _ := rules.Decide(p)
	return then != ThenAbsent, then
}
