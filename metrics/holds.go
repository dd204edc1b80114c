// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"strings"

	"tributary.dev/tributary/metrics/record"
)

// HoldReason is one of the closed set of reasons for which a change is kept back.
type HoldReason struct {
	// Name is the value of the label.
	Name string
	// Means says what is kept back; it stands in the reference.
	Means string
	// Release says how a person lets the change pass where no command does; empty
	// for what `tributary release` lets go of.
	Release string
}

// drainHeld is the reason of a drain that is not over.
const drainHeld = "drain_last_ready"

// HoldReasons returns all of them: first those that keep what a member seems to
// have lost, which are released by command, then those of one replica.
func HoldReasons() []HoldReason {
	const byNamespace = "create the namespace in the ingress cluster, or set replicas.createNamespaces"
	return []HoldReason{
		{"list_shrank", "a list lacks what is served", ""},
		{"first_list_shrank", "the first lists after a start lack too much of what stands", ""},
		{"revision_regressed", "the member went back in time, and a second list decides", ""},
		{"mass_not_ready", "panic: too many pods turned not ready at once and are kept ready", ""},
		{"node_silent", "pods are kept ready whose node stopped reporting", ""},
		{"rule_would_empty", "an edit of the rules, or the rules at a start, would take away too many ready endpoints", ""},
		{drainHeld, "the drained member has the last ready endpoints", "give another member ready endpoints, or set force on the drained cluster"},
		{"stale_last_ready", "the member that is out of sight has the last ready endpoints", "mend the member, or give another one ready endpoints"},
		{"unclaimed_addresses", "Endpoints have addresses that may be of a member that was not read yet", "mend the member that was not read, or take it out of the configuration"},
		{"unseen_members", "nobody wants the replica, but a member was not read yet", "mend the member that was not read, or take it out of the configuration"},
		{"repair_fight", "somebody keeps changing the replica, and repairs are slowed down", "stop the other writer: kubectl get --show-managed-fields -o yaml names it"},
		{"namespace_missing", "the replica's namespace is not there", byNamespace},
		{"namespace_terminating", "the replica's namespace is being deleted", "let the deletion end: kubectl describe namespace says what it waits for"},
		{"object_deleting", "an object of the replica is being deleted", "remove the finalizers it waits for"},
	}
}

// reasonOf is what the table says of a reason.
func reasonOf(name string) HoldReason {
	for _, reason := range HoldReasons() {
		if reason.Name == name {
			return reason
		}
	}
	return HoldReason{Name: name, Means: "kept as it was"}
}

// hold turns a change that had no effect because a guard kept one of its causes
// from having it into one that is held, and reports whether it did: what stands is
// not what the member shows.
func hold(rec *record.Change) bool {
	if rec.Result != record.Dropped {
		return false
	}
	kept := rec.Cause
	for i := 0; kept.Kept == "" && i < len(rec.Causes); i++ {
		kept = rec.Causes[i]
	}
	if kept.Kept == "" {
		return false
	}
	rec.Result = record.Held
	rec.Error = kept.Kept + ": " + reasonOf(kept.Kept).Means + "; to let it pass: tributary release --cluster " + kept.Cluster
	return true
}

// heldValues explains the label of held_changes in the reference.
func heldValues() string {
	var all []string
	for _, reason := range HoldReasons() {
		all = append(all, "`"+reason.Name+"` ("+reason.Means+")")
	}
	return "`reason`: " + strings.Join(all, ". ") + ". `cluster` is empty where no member is concerned. The first six are let go by `tributary release --cluster …`; " +
		"`tributary status` names the remedy of each."
}
