// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/e2e/fleet"
)

// TestCommands runs the commands beside `run` as a user does: check, plan and
// what they say about what is wrong.
func TestCommands(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	pod := w.pod(a, "shop", "web-0", "web")
	w.configure(a)

	if code, out := w.command("check", "--config", w.config); code != 0 || !strings.Contains(out, "idc-a") {
		t.Errorf("check: exit %d\n%s", code, out)
	}
	before := w.writes()
	code, out := w.command("plan", "--config", w.config)
	if code != 0 || !strings.Contains(out, "shop/web") || !strings.Contains(out, "create") {
		t.Errorf("plan: exit %d\n%s", code, out)
	}
	if after := w.writes(); after != before {
		t.Errorf("plan wrote %d times, want 0", after-before)
	}
	w.planIsJSON()

	w.start()
	w.shows("shop", "web", line(a, pod, "ready+serving"))
	w.statusAndTrace(pod.Status.PodIP)
	w.stopsInTime()
	w.badInput()
	w.lackOfRights(a)
}

// planIsJSON holds the machine-readable plan against what it promises.
func (w *world) planIsJSON() {
	w.Helper()
	code, out := w.command("plan", "--config", w.config, "-o", "json")
	var doc struct {
		Changes []struct {
			Replica string
			Actions []struct{ Verb, Object string }
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 {
		w.Fatalf("plan -o json: exit %d, %v\n%s", code, err, out)
	}
	for _, r := range doc.Changes {
		if r.Replica == "shop/web" && len(r.Actions) >= 3 {
			return
		}
	}
	w.Errorf("plan -o json lacks the actions for shop/web:\n%s", out)
}

// statusAndTrace asks the running instance about itself and about an address.
func (w *world) statusAndTrace(ip string) {
	w.Helper()
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"status", "--server", w.proc.URL}, []string{"idc-a", "live"}},
		{[]string{"explain", "shop/web", "--server", w.proc.URL}, []string{"idc-a: live", ip, "In the ingress cluster"}},
		{[]string{"trace", "--server", w.proc.URL, "--ip", ip}, []string{"shop/web", "written"}},
		{[]string{"trace", "--server", w.proc.URL, "--service", "shop/web", "-o", "json"}, []string{`"stages_ms"`, `"result":"written"`}},
	} {
		code, out := w.command(test.args...)
		for _, want := range test.want {
			if code != 0 || !strings.Contains(out, want) {
				w.Errorf("%q: exit %d, want 0 and %q in\n%s", test.args, code, want, out)
			}
		}
	}
}

// stopsInTime ends the instance with SIGTERM.
func (w *world) stopsInTime() {
	w.Helper()
	start := time.Now()
	w.must(w.proc.Stop(w.Context()))
	if took := time.Since(start); took > 10*time.Second {
		w.Errorf("SIGTERM took %v, want at most 10 s", took)
	}
}

// badInput gives run what it must refuse: exit 2, and a line that names file
// and field.
func (w *world) badInput() {
	w.Helper()
	member := "- name: idc-a\n  kubeconfig: " + w.fleet.Member("idc-a").Kubeconfig + "\n"
	valid := w.plainConfig(member)
	dir := filepath.Dir(w.config)
	for _, test := range []struct {
		name, config string
		want         []string
	}{
		{"unknown field", strings.Replace(valid, "clusters:", "clutsers:", 1), []string{"bad.yaml", "clutsers"}},
		{"repeated field", valid + "listen: 127.0.0.1:2\n", []string{"bad.yaml", "listen"}},
		{"cluster named twice", w.plainConfig(member + member), []string{"bad.yaml", "clusters[1].name", "idc-a"}},
		{"missing kubeconfig", strings.Replace(valid, w.fleet.Ingress.Kubeconfig, "nowhere.kubeconfig", 1), []string{"nowhere.kubeconfig", "ingress.kubeconfig"}},
		{"not YAML", "apiVersion: [", []string{"bad.yaml"}},
		{"empty", "", []string{"bad.yaml", "empty"}},
	} {
		path := filepath.Join(dir, "bad.yaml")
		w.must(os.WriteFile(path, []byte(test.config), 0o600))
		code, out := w.command("run", "--config", path)
		for _, want := range test.want {
			if code != 2 || !strings.Contains(out, want) {
				w.Errorf("%s: exit %d, want 2 and %q in\n%s", test.name, code, want, out)
			}
		}
	}
	if code, out := w.command("run", "--config", filepath.Join(dir, "none.yaml")); code != 2 || !strings.Contains(out, "none.yaml") {
		w.Errorf("no such file: exit %d\n%s", code, out)
	}
}

// plainConfig is a configuration with the given list of members.
func (w *world) plainConfig(clusters string) string {
	return fmt.Sprintf("apiVersion: tributary.dev/v1alpha1\nkind: Config\nlisten: %s\ningress:\n  kubeconfig: %s\nclusters:\n%s", w.listen, w.fleet.Ingress.Kubeconfig, clusters)
}

// lackOfRights takes the right to list pods away: check must say which.
func (w *world) lackOfRights(a *fleet.Site) {
	w.Helper()
	user, err := a.NewServiceAccount(w.Context(), "default", "blind")
	w.must(err)
	text, err := a.Cluster.Kubeconfig(user)
	w.must(err)
	path := filepath.Join(w.dir, "blind.kubeconfig")
	w.must(os.WriteFile(path, text, 0o600))
	file := filepath.Join(w.dir, "blind.yaml")
	w.must(os.WriteFile(file, []byte(w.plainConfig("- name: blind\n  kubeconfig: blind.kubeconfig\n")), 0o600))
	code, out := w.command("check", "--config", file)
	if code != 1 || !strings.Contains(out, "pods") || !strings.Contains(out, "blind") {
		w.Errorf("check without rights: exit %d, want 1 and the missing right in\n%s", code, out)
	}
}
