// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// explained is a replica with one of everything.
func explained(key syncer.Key) app.Explanation {
	return app.Explanation{
		Namespace: key.Namespace, Name: key.Name,
		Members: []app.ExplainedMember{
			{Cluster: "idc-a", State: "live", Synced: true, Services: []app.ExplainedService{{
				Service: "shop/web", Replica: "shop/web", Ready: 1, NotReady: 1, Pods: []app.ExplainedPod{
					{Pod: "web-1", IPs: []string{"10.0.0.1"}, Node: "n1", Endpoint: true, Ready: true},
					{Pod: "web-2", IPs: []string{"10.0.0.2"}, Endpoint: true, Why: "not ready: its condition Ready is not True"},
					{Pod: "web-3", Why: "has no address yet"},
				},
			}}},
			{Cluster: "idc-b", State: "silent", Reason: "Unreachable", Drained: true, Services: []app.ExplainedService{{Service: "shop/web", Excluded: "serviceSelector does not match its labels"}}},
			{Cluster: "idc-c", State: "live", Synced: true, Services: []app.ExplainedService{}},
			{Cluster: "idc-d", State: "connecting", Services: []app.ExplainedService{}},
		},
		Stands: reconcile.Stands{Service: "ours", InEndpoints: 1, Endpoints: []reconcile.StandingEndpoint{
			{Cluster: "idc-a", Address: "10.0.0.1", Ready: true, Serving: true}, {Cluster: "idc-a", Address: "10.0.0.2"},
		}},
		Orphans:   []plan.Kept{{Cluster: "idc-z", Endpoints: 2}},
		Conflicts: []metrics.Conflict{{Namespace: "shop", Service: "web", Reason: "refused", Message: "quota exceeded"}},
		Held:      []metrics.HeldChange{{Cluster: "idc-b", Reason: "list_shrank", Message: "3 pods are kept", Release: "tributary release --cluster idc-b"}},
	}
}

func TestExplain(t *testing.T) {
	server := httptest.NewServer(app.ExplainHandler(explained, func() []syncer.Key {
		return []syncer.Key{{Namespace: "pay", Name: "api"}, {Namespace: "shop", Name: "web"}}
	}))
	defer server.Close()
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		code := dispatch(t.Context(), append([]string{"explain", "--server", server.URL}, args...), &out, &out)
		return code, out.String()
	}
	const want = `idc-a: live
  Service shop/web: 1 ready, 1 not ready
POD    IP        ENDPOINT   WHY
web-1  10.0.0.1  ready      -
web-2  10.0.0.2  not ready  not ready: its condition Ready is not True
web-3  -         no         has no address yet

idc-b: silent (Unreachable), drained
  Service shop/web is excluded: serviceSelector does not match its labels

idc-c: live
  no such Service

idc-d: connecting
  no such Service so far: the member has not been read whole

In the ingress cluster: 1 ready addresses in Endpoints, these in slices:
CLUSTER  ADDRESS   CONDITIONS
idc-a    10.0.0.1  ready,serving
idc-a    10.0.0.2  -
Orphan: idc-z is not configured any more, and 2 endpoints of it stay as they were
Conflict: refused: quota exceeded
Held: idc-b list_shrank: 3 pods are kept; tributary release --cluster idc-b
`
	if code, out := run("shop/web"); code != exitOK || out != want {
		t.Errorf("exit %d\n%s\nwant\n%s", code, out, want)
	}
	if code, out := run("shop/web", "--cluster", "idc-b", "-o", "wide"); code != exitOK || strings.Contains(out, "web-1") || !strings.Contains(out, "idc-b") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, format := range []string{"json", "yaml"} {
		var doc struct {
			APIVersion, Kind string
			app.Explanation
		}
		code, out := run("shop/web", "-o", format)
		if err := yaml.Unmarshal([]byte(out), &doc); err != nil || code != exitOK || doc.Kind != "Explanation" || len(doc.Members) != 4 {
			t.Errorf("%s: exit %d, %v\n%s", format, code, err, out)
		}
	}
	for _, args := range [][]string{{}, {"web"}, {"shop/web", "shop/api"}} {
		if code, out := run(args...); code != exitUsage {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	if _, got := run("shop/web", "--cluster", "nobody"); !strings.Contains(got, `member "nobody" not found`) {
		t.Errorf("a cluster that is none: %s", got)
	}
	var names bytes.Buffer
	dispatch(t.Context(), []string{"__complete", "explain", "--server", server.URL, ""}, &names, io.Discard)
	if got := names.String(); !strings.HasPrefix(got, "pay/api\nshop/web\n") {
		t.Errorf("names are completed by %q", got)
	}
}

// TestContextsAreCompleted: flags that name a context offer those of the kubeconfig.
func TestContextsAreCompleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\ncontexts: [{name: two, context: {cluster: c}}, {name: one, context: {cluster: c}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"link", "x", "--kubeconfig", path, "--context", ""}, {"unlink", "x", "--kubeconfig", path, "--ingress-context", ""},
		{"status", "--kubeconfig", path, "--context", ""}, {"trace", "--kubeconfig", path, "--context", ""},
	} {
		var names bytes.Buffer
		dispatch(t.Context(), append([]string{"__complete"}, args...), &names, io.Discard)
		if want := "one\ntwo\n:4\n"; names.String() != want {
			t.Errorf("%q: %q, want %q", args, &names, want)
		}
	}
}
