// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary.dev/tributary/metrics"
)

func TestMain(m *testing.M) {
	logLibraries(slog.DiscardHandler) // many run at once here
	goleak.VerifyTestMain(m)
}

// call runs a command and returns what it says.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = dispatch(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	config := filepath.Join(t.TempDir(), "tributary.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: tributary.dev/v1alpha1\nkind: Config\nbogus: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("clusters: [{name: a, cluster: {server: 'https://a'}}]\ncontexts: [{name: a, context: {cluster: a}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		code int
		want string // in stdout where the code is 0, else in stderr
	}{
		{"", 0, "Available Commands"},
		{"--help", 0, "explain"},
		{"--version", 0, "tributary"},
		{"version", 0, "platform"},
		{"version -o yaml", 0, "version:"},
		{"version -o xml", 2, "must be one of text, json, yaml"},
		{"version extra", 2, "extra"},
		{"completion bash", 0, "bash completion"},
		{"completion csh", 2, "unknown command \"csh\""},
		{"plan --config tributary.yaml --timeout 0s", 2, "--timeout: 0s"},
		{"bogus", 2, "unknown command"},
		{"run", 2, "\"config\" not set"},
		{"run --config=", 2, `"": no such file or directory; --config names`},
		{"check --config " + config, 2, "bogus"},
		{"plan --config nowhere.yaml", 2, "nowhere.yaml"},
		{"run --confg x", 2, "unknown flag"},
		{"explain", 2, "accepts 1 arg"},
		{"explain web", 2, "not NAMESPACE/NAME"},
		{"status --server localhost:1 --context x", 2, "[context server]"},
		{"status --server ftp://x", 2, "is not an address"},
		{"status --server 127.0.0.1:1", 1, "is \"tributary run\" running"},
		{"link", 2, "accepts 1 arg"},
		{"link idc-a", 2, "--context is missing"},
		{"link IDC_A --context x", 2, "not a DNS label"},
		{"link idc-a --context x --file f --ingress-context y", 2, "[file ingress-context]"},
		{"link idc-a --dry-run", 0, "kind: ClusterRole"},
		{"link idc-a --dry-run --namespaces shop -o yaml", 0, `"tributary-member-reads"`},
		{"link IDC_A --dry-run", 2, "not a DNS label"},
		{"link idc-a --dry-run --namespaces=", 2, "names none"},
		{"status --watch --server ftp://x", 2, "is not an address"},
		{"link a --context a --server http://a --kubeconfig " + kubeconfig, 2, "give --server https://HOST:PORT"},
		{"unlink idc-a", 2, "--context is missing"},
	} {
		code, stdout, stderr := call(t, strings.Fields(test.args)...)
		said := stdout
		if code != 0 {
			said = stderr
		}
		if code != test.code || !strings.Contains(said, test.want) {
			t.Errorf("tributary %s: exit %d\n%s%s", test.args, code, stdout, stderr)
		}
	}
}

// TestStatusText: what is wrong comes first, with what to do, and what a cluster chose cannot
// drive the terminal.
func TestStatusText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &metrics.Status{
		Version: "v1", Instance: "default", Started: now.Add(-time.Hour), Time: now, Ready: true,
		Leader: metrics.LeaderStatus{State: "standby", Identity: "pod-1", Holder: "pod-0"}, Ingress: metrics.IngressStatus{Up: true, State: "live", Version: "v1.36.3", Replicas: 7},
		Clusters: []metrics.ClusterStatus{
			{Name: "idc-a", State: "live", Up: true, Synced: true, Services: 2, Endpoints: metrics.EndpointCounts{Ready: 5, Reserve: 1}, Native: &metrics.NativeStatus{}},
		},
		Lanes: []metrics.LaneStatus{{Name: "removal", Waiting: 3, OldestSeconds: 0.5}},
		Sinks: []metrics.SinkStatus{{Name: "slb", State: "live"}},
	}
	text := func() string {
		var out bytes.Buffer
		printStatus(&printer{w: &out}, s)
		return out.String()
	}
	for _, want := range []string{"All is well.\n", "pod-0; this process (pod-1) is on standby", "7 replicas", "idc-a  live", "removal  3"} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.Clusters[0].Conditions = []metrics.Condition{{Reason: "Drained", Message: "on purpose"}}
	s.Clusters = append(s.Clusters, metrics.ClusterStatus{Name: "idc-b", State: "unreachable", LastError: "no\x1b[2Jroute"})
	s.Conflicts, s.ConflictCount = []metrics.Conflict{{Namespace: "shop", Service: "web", Reason: "foreign_object", Message: "not ours"}}, 9
	s.Rejected, s.RejectedCount = []metrics.Rejection{{Cluster: "idc-a", Namespace: "shop", Service: "web", Address: "127.0.0.1", Reason: "loopback"}}, 1
	got := text()
	first, _, _ := strings.Cut(got, "\n")
	if !strings.HasPrefix(first, "WRONG  Cluster idc-b is unreachable: no\ufffd[2Jroute.") {
		t.Errorf("the first line is %q", first)
	}
	for _, want := range []string{"to do: tributary check", "live, Drained", "foreign_object", "… and 8 more", "127.0.0.1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestValuesForPrograms(t *testing.T) {
	value := map[string]int{"a": 1}
	for format, want := range map[string]string{"json": "{\n  \"a\": 1\n}\n", "yaml": "a: 1\n", "text": "1 for people\n"} {
		text := func(p *printer) { p.printf("%d for people\n", value["a"]) }
		var out bytes.Buffer
		if err := show(&out, format, value, text); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v", format, out.String(), err)
		}
		if err := show(broken{}, format, value, text); err == nil {
			t.Error("no error where nothing can be written")
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// rewrite changes a file.
func rewrite(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What is not known, or cannot be, is not called done.
func TestWordsOfNothing(t *testing.T) {
	text := func(print func(*printer)) string {
		var out strings.Builder
		if err := show(&out, "text", nil, print); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	d := planDocument{Replicas: 2, Changes: []plannedReplica{{Replica: "shop/web", Conflicts: []string{"foreign_object: it is another's"}}}}
	if got := text(d.print); !strings.Contains(got, "but conflicts in 1 of 2 replicas") {
		t.Errorf("a plan says\n%s", got)
	}
	one := planDocument{Replicas: 1, Writes: 1}
	if got := text(one.print); !strings.Contains(got, "1 write for 1 replica. ") {
		t.Errorf("a plan says\n%s", got)
	}
	for _, ready := range []bool{false, true} {
		s := &metrics.Status{Ready: ready}
		if got := text(func(p *printer) { printMembers(p, s) }); strings.Contains(got, "no members yet") != ready {
			t.Errorf("ready %v, a status says\n%s", ready, got)
		}
	}
}
