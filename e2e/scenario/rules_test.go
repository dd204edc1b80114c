// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
	"tributary.dev/tributary/metrics"
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
  then: NotReady
`
)

// TestRulesAtRunTime edits rules while tributary runs: one takes a pod off and lets it
// return, one that is wrong is refused and the running ones stay, one that matches all pods
// of a Service empties nothing unless it says Absent; and an upgrade in place leaves before its
// kubelet does anything.
func TestRulesAtRunTime(t *testing.T) {
	w := newWorld(t, "idc-a")
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

	// A rule that reads what nothing has stored so far, and a pod that it is about.
	w.annotate(a, "web-1", `"ops.example.com/off": "yes"`)
	if code, out := w.plan(offRule); code != 0 || !strings.Contains(out, "-"+pods[1].Status.PodIP) {
		t.Errorf("plan does not say what the rule would do: exit %d\n%s", code, out)
	}
	w.replaceConfig(func(s string) string { return s + offRule })
	w.shows("shop", "web", ready(0), ready(2))
	w.explains("(rule taken-off-by-hand)")
	w.annotate(a, "web-1", `"ops.example.com/off": null`)
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// A misspelt field is refused with its place, by check as well, and the former rule stays.
	w.replaceConfig(func(s string) string {
		return s + strings.Replace(imageRule, "c.image)", "c.imagge)", 1)
	})
	w.reportsConfig("undefined field 'imagge'")
	if code, out := w.command("check", "--config", w.config); code != 2 || !strings.Contains(out, "undefined field 'imagge'") {
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
	w.explains("(rule image-not-yet-running)")
	w.must(a.Restarted(ctx, pods[2]))
	w.shows("shop", "web", ready(0), ready(1), ready(2))

	// A rule that matches every pod makes none better than the others: they go on serving, also
	// with a process that starts with it, which writes nothing.
	w.replaceConfig(func(s string) string { return s + everyPod })
	w.explains("(rule every-pod)")
	w.shows("shop", "web", ready(0), ready(1), ready(2))
	w.settles()
	before := w.writes()
	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.explains("(rule every-pod)")
	w.shows("shop", "web", ready(0), ready(1), ready(2))
	if after := w.writes(); after != before {
		t.Errorf("a restart with a rule that matches every pod wrote %d times, want 0", after-before)
	}
	// Only Absent takes the last away.
	w.replaceConfig(func(s string) string {
		return strings.Replace(s, everyPod, strings.Replace(everyPod, "NotReady", "Absent", 1), 1)
	})
	w.shows("shop", "web")
	w.replaceConfig(func(s string) string { return s[:strings.Index(s, "- name: every-pod")] })
	w.shows("shop", "web", ready(0), ready(1), ready(2))
}

// settles waits until nothing is left to be written.
func (w *world) settles() {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status metrics.Status
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		left := status.Comparing
		for _, lane := range status.Lanes {
			left += lane.Waiting + lane.Sent
		}
		for _, c := range status.Clusters {
			if c.LagSeconds > 0 {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("something is to be written: %s", body)
		}
		return nil
	})
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
