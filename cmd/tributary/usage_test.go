// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filesIn writes files by name and returns their directory.
func filesIn(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	fileHeader = "apiVersion: tributary.dev/v1alpha1\nkind: Config\n"
	// someKubeconfig leads to one cluster in two contexts.
	someKubeconfig = `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: x, user: {token: t}}],
contexts: [{name: x, context: {cluster: x, user: x}}CONTEXTS]}`
)

// TestDetailedExitcode: with it, 2 says that there is something to write and nothing else.
func TestDetailedExitcode(t *testing.T) {
	dir := filesIn(t, map[string]string{"bad.yaml": fileHeader + "clusters: []\nx: 1\n", "not.yaml": "a: [\n"})
	for _, args := range [][]string{
		{},
		{"--config", filepath.Join(dir, "bad.yaml")},
		{"--config", filepath.Join(dir, "not.yaml")},
		{"--config", filepath.Join(dir, "none.yaml")},
		{"--config", filepath.Join(dir, "bad.yaml"), "--service", "x"},
		{"--bogus"},
		{"--output", "x"},
		{"argument"},
	} {
		for _, c := range []struct {
			flags []string
			want  int
		}{
			{nil, exitUsage},
			{[]string{"--detailed-exitcode"}, exitFailed},
			{[]string{"--detailed-exitcode=true"}, exitFailed},
			{[]string{"--detailed-exitcode=false"}, exitUsage},
		} {
			var out strings.Builder
			if code := dispatch(t.Context(), append(append([]string{"plan"}, args...), c.flags...), &out, &out); code != c.want || out.Len() == 0 {
				t.Errorf("plan %q %q ends with %d, want %d: %s", args, c.flags, code, c.want, &out)
			}
		}
	}
}

// TestOffline: it looks at files alone, wherever it is called.
func TestOffline(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // nor does the test run in a pod
	const member = "clusters: [{name: a, kubeconfig: a}]\n"
	kubeconfig := strings.Replace(someKubeconfig, "CONTEXTS", "", 1)
	dir := filesIn(t, map[string]string{
		"pod.yaml": fileHeader + member, "none.yaml": fileHeader + member + "ingress: {kubeconfig: none}\n", "lost.yaml": fileHeader + "clusters: [{name: a, kubeconfig: none}]\n",
		"a": kubeconfig,
	})
	for _, c := range []struct {
		file  string
		flags []string
		want  int
		says  string
	}{
		{"pod.yaml", []string{"--offline"}, exitOK, "ingress.kubeconfig is left out"},
		{"none.yaml", []string{"--offline"}, exitUsage, "ingress.kubeconfig: "},
		{"lost.yaml", []string{"--offline"}, exitUsage, "clusters[0].kubeconfig: "},
		{"pod.yaml", []string{"--timeout", "1s"}, exitUsage, "does not run in a cluster"},
		{"pod.yaml", []string{"--offline", "--dial"}, exitUsage, "--dial asks clusters"},
	} {
		var out strings.Builder
		if code := dispatch(t.Context(), append([]string{"check", "--config", filepath.Join(dir, c.file)}, c.flags...), &out, &out); code != c.want || !strings.Contains(out.String(), c.says) {
			t.Errorf("check of %s with %q ends with %d, want %d and %q:\n%s", c.file, c.flags, code, c.want, c.says, &out)
		}
	}
}
