// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

const (
	// The rule's Service lives apart from the others'.
	ruledNamespace = "orders"
	ruledPods      = 4
	// ruleAfter is when the rule is added, once tributary runs.
	ruleAfter = 5 * time.Second

	offAnnotation = "ops.example.com/off"
	ruleName      = "taken-off-by-hand"
	rule          = "rules:\n- name: " + ruleName + "\n  when: \"'" + offAnnotation + "' in pod.metadata.annotations\"\n  then: Absent\n"
)

// prepareRule creates a Service of which one pod has an annotation that has no effect
// without a rule.
func prepareRule(ctx context.Context, member *fleet.Site) error {
	if err := member.CreateNamespaces(ctx, ruledNamespace); err != nil {
		return err
	}
	if err := member.Create(ctx, fleet.NewService(ruledNamespace, "orders")); err != nil {
		return err
	}
	for i := range ruledPods {
		pod := fleet.NewPod(ruledNamespace, fmt.Sprintf("orders-%d", i), "orders")
		if i == 0 {
			pod.Annotations = map[string]string{offAnnotation: "disk is being changed"}
		}
		if err := member.RunPods(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// runRule adds a rule to the file of the running tributary. Its effect is the change
// record with a removal: nothing else removes a pod of that Service.
func runRule(ctx context.Context, config string, b *board) error {
	select {
	case <-time.After(ruleAfter):
	case <-ctx.Done():
		return ctx.Err()
	}
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	edited := config + ".edited"
	if err := os.WriteFile(edited, append(text, rule...), 0o600); err != nil {
		return err
	}
	b.ruleSaved(time.Now())
	return os.Rename(edited, config)
}
