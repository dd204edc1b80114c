// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

const (
	offRule = `rules:
- name: taken-off-by-hand
  when: "'ops.example.com/off' in pod.metadata.annotations"
  then: Absent
`
	imageRule = `- name: image-not-yet-running
  when: |
    !pod.spec.containers.all(c, pod.status.containerStatuses.exists(s,
      s.name == c.name && sameImage(s.image, c.image)))
  then: NotReady
`
	everyPod = `- name: every-pod
  when: pod.metadata.namespace == 'shop'
  then: Absent
`
)

// TestRulesAtRunTime edits rules while tributary runs: one takes a pod off and lets it
// return, one that is wrong is refused and the running ones stay, one that would empty a
// replica is held, outlasts a restart, and is released; and an upgrade in place leaves
// before its kubelet does anything.
func TestRulesAtRunTime(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.configure(a)
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	var pods []*corev1.Pod
	for i := range 3 {
		pods = append(pods, w.pod(a, "shop", fmt.Sprintf("web-%d", i), "web"))
	}
	ready := func(i int) string { return line(a, pods[i], "ready+serving") }
	w.start()
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// A rule that reads what nobody kept so far, and a pod that it is about.
	w.annotate(a, "web-1", `"ops.example.com/off": "yes"`)
	if code, out := w.plan(offRule); code != 0 || !strings.Contains(out, "taken-off-by-hand") || !strings.Contains(out, "1        1      0") {
		t.Errorf("plan does not say what the rule would do: exit %d\n%s", code, out)
	}
	w.replaceConfig(func(s string) string { return s + offRule })
	w.shows("shop", "web", ready(0), ready(2))
	w.explains("rule taken-off-by-hand: Absent")
	w.annotate(a, "web-1", `"ops.example.com/off": null`)
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// A misspelt field is refused with its place, by check as well, and the former rule stays.
	w.replaceConfig(func(s string) string {
		return s + strings.Replace(imageRule, "c.image)", "c.imagge)", 1)
	})
	w.reportsConfig("rules[1].when: undefined field 'imagge'")
	if code, out := w.command("check", "--offline", "--config", w.config); code != 2 || !strings.Contains(out, "undefined field 'imagge'") {
		t.Errorf("check: exit %d\n%s", code, out)
	}
	w.annotate(a, "web-0", `"ops.example.com/off": "yes"`)
	w.shows("shop", "web", ready(1), ready(2))
	w.annotate(a, "web-0", `"ops.example.com/off": null`)
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// An upgrade in place: the address is not ready before the kubelet has heard of it.
	w.replaceConfig(func(s string) string { return strings.Replace(s, "imagge", "image", 1) })
	w.reportsConfig("")
	w.must(a.SetImage(ctx, pods[2], "team/web:2"))
	w.shows("shop", "web", ready(0), ready(1), line(a, pods[2], "off"))
	w.explains("rule image-not-yet-running: NotReady")
	w.must(a.Restarted(ctx, pods[2]))
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// A rule that would empty the replica is held, also by a process that starts with it.
	before := w.writes()
	w.replaceConfig(func(s string) string { return s + everyPod })
	w.reports("idc-a", "ChangesHeld")
	w.explains("rule every-pod would make it Absent, and is held: rule_would_empty")
	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.reports("idc-a", "ChangesHeld")
	w.shows("shop", "web", ready(0), ready(1), ready(2))
	if after := w.writes(); after != before {
		t.Errorf("a rule that is held, and a restart, wrote %d times, want 0", after-before)
	}
	if code, out := w.command("release", "--server", w.proc.URL, "--cluster", "idc-a"); code != 0 || !strings.Contains(out, "3 endpoints that rules take away") {
		t.Errorf("release: exit %d\n%s", code, out)
	}
	w.shows("shop", "web")
	w.reports("idc-a", "")
	if code, out := w.command("trace", "--server", w.proc.URL, "--service", "shop/web", "-o", "json"); code != 0 || !strings.Contains(out, `"rule":"every-pod"`) {
		t.Errorf("trace: exit %d, and no record names the rule:\n%s", code, out)
	}
	page, err := w.proc.Get(ctx, "/metrics")
	w.must(err)
	if !strings.Contains(string(page), `tributary_rule_matches{member_cluster="idc-a",rule="every-pod"} 3`) {
		t.Error("the metrics do not count the pods of the rule")
	}
	w.replaceConfig(func(s string) string { return strings.Replace(s, everyPod, "", 1) })
	w.shows("shop", "web", ready(0), ready(1), ready(2))
}

// annotate changes annotations of a pod.
func (w *world) annotate(site *fleet.Site, pod, annotations string) {
	w.Helper()
	patch := []byte(`{"metadata":{"annotations":{` + annotations + `}}}`)
	_, err := site.Client.CoreV1().Pods("shop").Patch(w.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{})
	w.must(err)
}

// plan plans with more in the configuration than there is.
func (w *world) plan(more string) (code int, output string) {
	w.Helper()
	text, err := os.ReadFile(w.config)
	w.must(err)
	path := w.config + ".plan"
	w.must(os.WriteFile(path, append(text, more...), 0o600))
	return w.command("plan", "--config", path)
}

// explains waits until explain says this of shop/web.
func (w *world) explains(text string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		code, out := w.command("explain", "--server", w.proc.URL, "shop/web")
		if code != 0 || !strings.Contains(out, text) {
			return fmt.Errorf("explain: exit %d, and no %q in\n%s", code, text, out)
		}
		return nil
	})
}
