// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// TestReasonsAreDocumented: every reason that can become a metric label stands in
// the reference of its family; metrics cannot import who has them.
func TestReasonsAreDocumented(t *testing.T) {
	released := []string{string(evidence.HoldList), string(evidence.HoldRevision), string(evidence.HoldStart), string(evidence.HoldPanic), string(evidence.HoldSilentNode), string(evidence.HoldRule)}
	others := []string{
		string(plan.HeldDrain), string(plan.HeldStale), string(plan.HeldUnclaimed), "unseen_members", "repair_fight",
		string(plan.WaitNamespaceMissing), string(plan.WaitNamespaceTerminating), string(plan.WaitObjectDeleting),
	}
	for family, reasons := range map[string][]string{
		"held_changes": append(slices.Clone(released), others...),
		"conflicts": {
			string(plan.ConflictForeign), string(plan.ConflictInstance), string(plan.ConflictRecord), string(plan.ConflictNamespace), string(plan.ConflictPort), string(plan.ConflictHeadless), string(plan.ConflictDuplicate),
			string(plan.ConflictSelector), string(plan.ConflictName), string(plan.ConflictAnnotation), string(plan.ConflictRefused),
			string(plan.ConflictFailing), string(plan.ConflictMutated), string(plan.ConflictProcess),
		},
		"rejected_addresses_total": {
			string(syncer.RejectMalformed), string(syncer.RejectUnspecified), string(syncer.RejectLoopback), string(syncer.RejectLinkLocal),
			string(syncer.RejectMulticast), string(syncer.RejectNotAllowed), string(syncer.RejectPort), string(syncer.RejectHostname),
			string(syncer.RejectNodeName), string(syncer.RejectFQDN), string(syncer.RejectRefused),
		},
	} {
		i := slices.IndexFunc(metrics.Families(), func(f metrics.Family) bool { return f.Name == family })
		for _, reason := range reasons {
			if !strings.Contains(metrics.Families()[i].Values, "`"+reason+"`") {
				t.Errorf("the reference of %s does not know %s", family, reason)
			}
		}
	}
	for _, reason := range metrics.HoldReasons() {
		switch {
		case slices.Contains(released, reason.Name) != (reason.Release == ""):
			t.Errorf("%s is released by %q", reason.Name, reason.Release)
		case !slices.Contains(released, reason.Name) && !slices.Contains(others, reason.Name):
			t.Errorf("nothing has reason %s", reason.Name)
		}
	}
}
