// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/reconcile"
)

// TestExplainRule: a pod names the rule that decides about it, and the one that would.
func TestExplainRule(t *testing.T) {
	none, off := store.Decision{Then: store.Upstream}, store.Decision{Rule: "off", Then: store.Absent}
	up, wide := store.Decision{Rule: "up", Then: store.Ready}, store.Decision{Rule: "wide", Then: store.NotReady}
	for _, test := range []struct {
		is, held        store.Decision
		why, rule, want string
	}{
		{none, none, "not ready", "", "not ready"},
		{off, off, "", "off", "rule off: Absent"},
		{up, up, "no address", "up", "rule up: Ready; no address"},
		{none, wide, "", "wide", "rule wide would make it NotReady, and is held: rule_would_empty"},
		{none, wide, "not ready", "wide", "rule wide would make it NotReady, and is held: rule_would_empty; not ready"},
		{off, wide, "", "off", "rule wide would make it NotReady, and is held: rule_would_empty; rule off: Absent"},
		{up, none, "", "up", "rule up made it Ready; that it does not any more is held: rule_would_empty"},
	} {
		pod := ExplainedPod{Why: test.why}
		explainRule(&store.ExplainedPod{Decision: test.is, Suspended: test.held}, &pod)
		if pod.Why != test.want || pod.Rule != test.rule {
			t.Errorf("%v, held %v: rule %q: %q; want rule %q: %q", test.is, test.held, pod.Rule, pod.Why, test.rule, test.want)
		}
	}
}

// TestExplainUnserved: a pod that the member gives as ready, and that does not stand so, has a reason.
func TestExplainUnserved(t *testing.T) {
	ready := func(cluster, address string) reconcile.StandingEndpoint {
		return reconcile.StandingEndpoint{Cluster: cluster, Address: address, Ready: true}
	}
	for name, test := range map[string]struct {
		drained, stale bool
		inTurn, wanted bool
		replica        string
		standing       []reconcile.StandingEndpoint
		want           [2]string // of a ready pod and of one that is not
	}{
		"it stands":             {standing: []reconcile.StandingEndpoint{ready("b", "10.0.0.1")}, want: [2]string{"", "no"}},
		"drained, its last":     {drained: true, standing: []reconcile.StandingEndpoint{ready("b", "10.0.0.1")}, want: [2]string{"", "no"}},
		"drained":               {drained: true, standing: []reconcile.StandingEndpoint{ready("a", "10.1.0.1")}, want: [2]string{"not served: the member is drained", "no"}},
		"stale":                 {stale: true, standing: []reconcile.StandingEndpoint{{Cluster: "b", Address: "10.0.0.1"}}, want: [2]string{"not served: the member is stale", "no"}},
		"in reserve":            {inTurn: true, standing: []reconcile.StandingEndpoint{ready("a", "10.1.0.1")}, want: [2]string{"not served: a serves, and the member is in reserve", "no"}},
		"its turn has come":     {inTurn: true, wanted: true, standing: []reconcile.StandingEndpoint{ready("a", "10.1.0.1")}, want: [2]string{"not served: not written yet", "no"}},
		"all serve":             {wanted: true, standing: []reconcile.StandingEndpoint{ready("a", "10.1.0.1")}, want: [2]string{"not served: not written yet", "no"}},
		"another's address":     {standing: []reconcile.StandingEndpoint{ready("a", "10.0.0.1")}, want: [2]string{"not served: left out", "no"}},
		"others of it stand":    {standing: []reconcile.StandingEndpoint{ready("b", "10.0.0.9")}, want: [2]string{"not served: left out", "no"}},
		"it is another replica": {replica: "shop/web-b", want: [2]string{"", "no"}},
	} {
		m := ExplainedMember{Cluster: "b", Drained: test.drained, Services: []ExplainedService{{Replica: cmp.Or(test.replica, "shop/web"), Pods: []ExplainedPod{
			{IPs: []string{"10.0.0.1"}, Ready: true}, {IPs: []string{"10.0.0.2"}, Why: "no"},
		}}}}
		m.explainUnserved("shop/web", test.stale, test.standing, &reconcile.Wanted{InTurn: test.inTurn, Ready: map[string]map[string]bool{"b": {"10.0.0.1": test.wanted}}})
		if got := [2]string{m.Services[0].Pods[0].Why, m.Services[0].Pods[1].Why}; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
