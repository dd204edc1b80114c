// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/e2e/fleet"
)

// TestOldServers replicates from a member that answers as Kubernetes 1.17 does,
// into an ingress cluster that answers as 1.20 does, which has no
// discovery.k8s.io/v1: Endpoints alone are written there.
func TestOldServers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	first := w.pod(a, "shop", "web-0", "web")

	member, err := a.PlayVersion("1.17")
	w.must(err)
	defer member.Close()
	ingress, err := w.fleet.Ingress.PlayVersion("1.20")
	w.must(err)
	defer ingress.Close()
	w.configure(a)

	code, out := w.command("check", "--config", w.config)
	if code != 1 || !strings.Contains(out, "replicas.write") {
		t.Errorf("check of an ingress cluster without slices: exit %d, output %s; want 1 and the field to change", code, out)
	}
	w.replaceConfig(func(s string) string { return s + "\nreplicas:\n  write: [Endpoints]\n" })
	if code, out = w.command("check", "--config", w.config); code != 0 || !strings.Contains(out, "v1.17") {
		t.Errorf("check with write: [Endpoints]: exit %d, output %s; want 0 and the member's version", code, out)
	}

	w.start()
	w.showsEndpoints("shop", "web", first.Status.PodIP+":8080/http ready")
	second := w.pod(a, "shop", "web-1", "web")
	w.showsEndpoints("shop", "web", first.Status.PodIP+":8080/http ready", second.Status.PodIP+":8080/http ready")
	w.must(a.Remove(ctx, "shop", "web-0"))
	w.showsEndpoints("shop", "web", second.Status.PodIP+":8080/http ready")
	w.must(w.proc.Stop(ctx))

	// What is newer than the server may be asked for only where it is offered.
	for _, asked := range slices.Concat(member.Refused(), ingress.Refused()) {
		if strings.Contains(asked, "sendInitialEvents") {
			t.Errorf("an old server was asked for %s", asked)
		}
	}
}
