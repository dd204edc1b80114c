// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"strings"
	"testing"

	"tributary.dev/tributary/e2e/fleet"
)

// TestOldServers replicates from a member that answers as Kubernetes 1.17 does. An ingress
// cluster that answers as 1.20 does has no discovery.k8s.io/v1: check says so.
func TestOldServers(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	first := w.pod(a, "shop", "web-0", "web")

	member, err := a.PlayVersion("1.17")
	w.must(err)
	defer member.Close()
	current, err := os.ReadFile(w.fleet.Ingress.Kubeconfig)
	w.must(err)
	ingress, err := w.fleet.Ingress.PlayVersion("1.20")
	w.must(err)
	defer ingress.Close()
	w.configure(a)
	if code, out := w.command("check", "--config", w.config); code != 1 || !strings.Contains(out, "discovery.k8s.io/v1") {
		t.Errorf("check of an ingress cluster without slices: exit %d, output %s; want 1 and what it lacks", code, out)
	}
	w.must(os.WriteFile(w.fleet.Ingress.Kubeconfig, current, 0o600))
	if code, out := w.command("check", "--config", w.config); code != 0 || !strings.Contains(out, "v1.17") {
		t.Errorf("check: exit %d, output %s; want 0 and the member's version", code, out)
	}

	w.start()
	w.shows("shop", "web", line(a, first, "ready+serving"))
	second := w.pod(a, "shop", "web-1", "web")
	w.shows("shop", "web", line(a, first, "ready+serving"), line(a, second, "ready+serving"))
	w.must(a.Remove(ctx, "shop", "web-0"))
	w.shows("shop", "web", line(a, second, "ready+serving"))
	w.must(w.proc.Stop(ctx))

	// What is newer than the server may be asked for only where it is offered.
	for _, asked := range member.Refused() {
		if strings.Contains(asked, "sendInitialEvents") {
			t.Errorf("an old server was asked for %s", asked)
		}
	}
}
