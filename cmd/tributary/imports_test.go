// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "tributary.dev/tributary/"

// TestPurePackagesReachNoIO keeps clients, network, logs and metrics out of the
// packages that only decide.
func TestPurePackagesReachNoIO(t *testing.T) {
	for _, pure := range []string{"syncer", "reconcile/plan", "reconcile/ports", "clusters/member", "clusters/store"} {
		for _, dependency := range dependencies(t, pure) {
			for _, banned := range []string{"net/http", "log/slog", "os", "k8s.io/client-go", "k8s.io/klog", "github.com/prometheus"} {
				if dependency == banned || strings.HasPrefix(dependency, banned+"/") {
					t.Errorf("%s depends on %s; rules and merge take values and return values", pure, dependency)
				}
			}
		}
	}
}

// shared is how a cluster is followed, for both halves.
const shared = "clusters/kube"

// TestImportsRunOneWay holds the directions that CONTRIBUTING.md draws.
func TestImportsRunOneWay(t *testing.T) {
	for _, rule := range []struct {
		of, never, why string
	}{
		{"clusters", "reconcile", "members know nothing of the ingress cluster"},
		{"reconcile", "clusters", "the ingress side sees members only through reconcile.Source"},
		{shared, "clusters", "both halves follow clusters through it"},
		{shared, "reconcile", "both halves follow clusters through it"},
		{"syncer", "clusters", "rules sit at the bottom"},
		{"syncer", "metrics", "rules report by returning values"},
		{"reconcile/plan", "metrics", "a plan is a value; the loop reports it"},
		{"clusters/member", "metrics", "the state of a member is a value; its shell reports it"},
		{"clusters/store", "metrics", "the store is memory only"},
		{"reconcile/cache", "reconcile/write", "the current state does not depend on how it is written"},
		{"metrics", "syncer", "metrics is used by all and uses none"},
		{"metrics", "clusters", "metrics is used by all and uses none"},
		{"metrics", "reconcile", "metrics is used by all and uses none"},
	} {
		for _, dependency := range dependencies(t, rule.of) {
			if dependency == module+shared && (rule.of == "reconcile" || rule.of == shared) {
				continue
			}
			if dependency == module+rule.never || strings.HasPrefix(dependency, module+rule.never+"/") {
				t.Errorf("%s depends on %s: %s", rule.of, dependency, rule.why)
			}
		}
	}
}

// dependencies lists what a package of ours needs, however indirectly. Standard
// library packages that every program links (os through fmt) count only when
// one of our own packages names them.
func dependencies(t *testing.T, name string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{if not .Standard}}{{.ImportPath}}{{"\n"}}{{range .Imports}}{{.}}{{"\n"}}{{end}}{{end}}`, module+name).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", name, err)
	}
	return strings.Fields(string(out))
}
