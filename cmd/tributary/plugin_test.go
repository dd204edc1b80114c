// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// calledAs lets commands believe that they were called by another name.
func calledAs(t *testing.T, name string) {
	t.Helper()
	own := os.Args[0]
	os.Args[0] = name
	t.Cleanup(func() { os.Args[0] = own })
}

// TestPluginSaysKubectl: help, examples and errors show commands as they are typed.
func TestPluginSaysKubectl(t *testing.T) {
	config := filepath.Join(filesIn(t, map[string]string{"c.yaml": fileHeader + "clusters: [{name: a, kubeconfig: a}]\n", "a": strings.Replace(someKubeconfig, "CONTEXTS", "", 1)}), "c.yaml")
	var calls [][]string
	for _, c := range newRoot().Commands() {
		if name := c.Name(); name != "help" && name != "completion" {
			calls = append(calls, []string{name, "--help"}, []string{name, "--bogus"})
			if !commandLine.MatchString("tributary " + name) {
				t.Errorf("a text that names %s is not recognised", name)
			}
		}
	}
	calls = append(calls, []string{"release"}, []string{"status", "--server", "127.0.0.1:1"}, []string{"check", "--offline", "--config", config}, []string{"plan", "--config", config, "--timeout", "1s"})
	for _, args := range calls {
		calledAs(t, "/usr/bin/kubectl-tributary")
		var out strings.Builder
		dispatch(t.Context(), args, &out, &out)
		said := out.String()
		if rest := strings.ReplaceAll(said, "kubectl tributary ", ""); commandLine.MatchString(rest) {
			t.Errorf("%q does not say kubectl everywhere:\n%s", args, said)
		}
		if args[len(args)-1] == "--help" && !strings.Contains(said, "Usage:\n  kubectl tributary "+args[0]) {
			t.Errorf("%q has another usage:\n%s", args, said)
		}
		calledAs(t, "tributary")
		out.Reset()
		dispatch(t.Context(), args, &out, &out)
		if strings.Contains(out.String(), "kubectl tributary") {
			t.Errorf("%q by its own name says:\n%s", args, &out)
		}
	}
}

// TestPluginCompletes: kubectl asks for completions by another name.
func TestPluginCompletes(t *testing.T) {
	var out strings.Builder
	if code := dispatch(t.Context(), arguments([]string{"/usr/bin/kubectl_complete-tributary", "st"}), &out, &strings.Builder{}); code != exitOK || !strings.HasPrefix(out.String(), "status\t") {
		t.Errorf("exit %d: %s", code, &out)
	}
}
