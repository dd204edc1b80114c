// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestGuardAtTheStart restarts tributary in the middle of a panic, and after an edit
// that moves every replica: neither may be mistaken for a loss.
func TestGuardAtTheStart(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.configure(a)
	w.must(a.CreateNamespaces(ctx, "shop"))
	lines, pods := map[string][]string{}, map[string][]string{}
	for _, app := range []string{"web", "api", "db"} {
		w.must(a.Create(ctx, fleet.NewService("shop", app)))
		for i := range 6 {
			pod := w.pod(a, "shop", fmt.Sprintf("%s-%d", app, i), app)
			lines[app] = append(lines[app], line(a, pod, "ready+serving"))
			pods[app] = append(pods[app], pod.Name)
		}
	}
	stand := func(suffix string) {
		t.Helper()
		for app, want := range lines {
			w.shows("shop", app+suffix, want...)
		}
	}
	w.start()
	stand("")

	// Most pods turn not ready, and the process ends.
	for _, names := range pods {
		for _, name := range names[1:] {
			w.must(a.MarkNotReady(ctx, "shop", name))
		}
	}
	// A third recovers: half are down, too few to begin a panic, and too many to end one.
	for _, names := range pods {
		for _, name := range names[1:3] {
			w.must(a.MarkReady(ctx, "shop", name))
		}
	}
	w.reports("idc-a", "MassNotReady")
	stand("")
	fleettest.Eventually(t, soon, func(ctx context.Context) error {
		leases, err := w.fleet.Ingress.Client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(leases.Items, func(l coordinationv1.Lease) bool {
			return strings.Contains(l.Annotations["tributary.dev/members-in-panic"], `"idc-a"`)
		}) {
			return errors.New("the panic is not on record")
		}
		return err
	})
	before := w.writes()
	w.proc.Kill()
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	w.reports("idc-a", "MassNotReady")
	// They recover one after the other, and until the last nothing is to come of it.
	for _, names := range pods {
		for _, name := range names {
			w.must(a.MarkReady(ctx, "shop", name))
		}
	}
	w.reports("idc-a", "")
	stand("")
	if after := w.writes(); after != before {
		t.Errorf("a restart in a panic, and the end of it, wrote %d times, want 0", after-before)
	}

	// The file is edited while nobody runs.
	w.must(w.proc.Stop(ctx))
	w.replaceConfig(func(s string) string { return s + "replicas: {mode: separate}\n" })
	if code, out := w.command("plan", "--config", w.config); code != 0 || !strings.Contains(out, "web-idc-a") {
		t.Errorf("plan ended with %d:\n%s", code, out)
	}
	w.must(w.proc.Start(ctx))
	w.must(w.proc.WaitReady(ctx))
	stand("-idc-a")
	for app := range lines {
		w.gone("shop", app)
	}
}
