// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// TestUnknownCommands are told, with what was perhaps meant.
func TestUnknownCommands(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"statsu"}, "tributary: unknown command \"statsu\" for \"tributary\"\n\nDid you mean this?\n\tstatus\n"},
		{[]string{"nothing-like-it"}, "tributary: unknown command \"nothing-like-it\" for \"tributary\""},
		{[]string{"completion", "tcsh"}, "unknown command \"tcsh\" for \"tributary completion\""},
		{[]string{"completion"}, "powershell"},
		{[]string{}, "Available Commands"},
		{[]string{"status", "--wait", "-1s"}, "--wait: -1s is no time"},
		{[]string{"link", "a", "--dry-run", "--namespaces", ""}, "--namespaces names none"},
		{[]string{"check", "--timeout", "0s"}, "--timeout: 0s"},
		{[]string{"plan", "--timeout", "-1s"}, "--timeout: -1s"},
		{[]string{"help", "nosuch"}, "unknown command \"nosuch\" for \"tributary\""},
		{[]string{"run", "x"}, "tributary run: it takes no argument, and \"x\" is one"},
		{[]string{"link", "a", "--dry-run", "--context", "nosuch"}, "no context \"nosuch\""},
	} {
		var out, complaints strings.Builder
		if code := dispatch(t.Context(), c.args, &out, &complaints); code != exitUsage || !strings.Contains(complaints.String(), c.says) || out.Len() > 0 {
			t.Errorf("%q ends with %d: %q %q", c.args, code, &out, &complaints)
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

// TestContextsAreToldOf: which of several contexts is used is never silent, unless the file names it.
func TestContextsAreToldOf(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := filesIn(t, map[string]string{
		"one": strings.Replace(someKubeconfig, "CONTEXTS", "", 1),
		"two": strings.Replace(someKubeconfig, "CONTEXTS", ", {name: y, context: {cluster: x, user: x}}", 1),
	})
	const ingressFollows = `follows the current-context of its kubeconfig, "x", one of 2: write ingress.context to hold it`
	memberFollows := strings.Replace(ingressFollows, "ingress", "clusters[0]", 1)
	for _, c := range []struct {
		ingress, member string
		notes           [2]string
	}{
		{"kubeconfig: one", "kubeconfig: one", [2]string{}},
		{"kubeconfig: two", "kubeconfig: two", [2]string{ingressFollows, memberFollows}},
		{"kubeconfig: two, context: x", "kubeconfig: two", [2]string{"", memberFollows}},
		{"kubeconfig: two", "kubeconfig: two, context: y", [2]string{ingressFollows, ""}},
	} {
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, []byte(fileHeader+"listen: 127.0.0.1:0\ningress: {"+c.ingress+"}\nclusters: [{name: a, "+c.member+"}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		if code := dispatch(t.Context(), []string{"check", "--offline", "-o", "json", "--config", path}, &out, &errs); code != exitOK {
			t.Fatalf("check of %+v ends with %d: %s", c, code, &errs)
		}
		var found checks
		if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel() // run says how it starts, and ends
		var logged strings.Builder
		dispatch(ended, []string{"run", "--config", path, "--log-format", "json"}, &logged, &logged)
		for i, want := range c.notes {
			if got := strings.Join(found.Clusters[i].Notes, "; "); got != want || found.Clusters[i].Context == "" {
				t.Errorf("%+v: check notes of %s, context %q: %q, want %q", c, found.Clusters[i].Cluster, found.Clusters[i].Context, got, want)
			}
			field := []string{"ingress.context", "clusters[0].context"}[i]
			if strings.Contains(logged.String(), "write "+field+" to hold it") != (want != "") {
				t.Errorf("%+v: the log of run and %s:\n%s", c, field, &logged)
			}
		}
	}
}

// TestTokensThatCannotBeKeptAreToldOf: when the file is read, and not when the token is about to end.
func TestTokensThatCannotBeKeptAreToldOf(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	claims := fmt.Sprintf(`{"iat":1,"exp":%d,"kubernetes.io":{"namespace":"n","serviceaccount":{"name":"a"}}}`, time.Now().AddDate(0, 0, 30).Unix())
	kubeconfig := strings.NewReplacer("CONTEXTS", "", "token: t", "token: h."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".sig").Replace(someKubeconfig)
	// Beside a file whose name is as long as a file system takes, not even root can make one with a longer name.
	long := strings.Repeat("k", 255)
	dir := filesIn(t, map[string]string{
		"k": kubeconfig, long: kubeconfig, "ingress": strings.Replace(someKubeconfig, "CONTEXTS", "", 1),
		"c.yaml": fileHeader + "listen: 127.0.0.1:0\ningress: {kubeconfig: ingress}\nclusters: [{name: kept, kubeconfig: k}, {name: ends, kubeconfig: " + long + "}]\n",
	})
	path := filepath.Join(dir, "c.yaml")
	var out strings.Builder
	dispatch(t.Context(), []string{"check", "--offline", "-o", "json", "--config", path}, &out, &out)
	var found checks
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil {
		t.Fatal(err)
	}
	for i, told := range []bool{false, false, true} {
		if notes := strings.Join(found.Clusters[i].Notes, "; "); strings.Contains(notes, "its token cannot be renewed") != told {
			t.Errorf("%s: %q", found.Clusters[i].Cluster, notes)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	out.Reset()
	dispatch(ended, []string{"run", "--config", path, "--log-format", "json"}, &out, &out)
	if text := out.String(); strings.Count(text, "cannot be renewed") != 1 || !strings.Contains(text, `"cluster":"ends"`) || strings.Contains(text, ".sig") {
		t.Errorf("run logs:\n%s", text)
	}
}
