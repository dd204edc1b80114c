// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"tributary.dev/tributary/clusters/store"
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
