// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestNamespaceMovesToAnotherInstallation has two installations share the namespaces of one ingress cluster, and moves one of
// them as docs/operations.md says. Nobody writes anything but the labels, and the new writer follows from then on.
func TestNamespaceMovesToAnotherInstallation(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop", "pay"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web"), fleet.NewService("pay", "api")))
	web := line(a, w.pod(a, "shop", "web-0", "web"), "ready+serving")
	api := line(a, w.pod(a, "pay", "api-0", "api"), "ready+serving")

	plain, err := os.ReadFile(w.config)
	w.must(err)
	of := func(config, listen, instance, namespaces string) {
		w.Helper()
		text := strings.Replace(string(plain), w.listen, listen, 1)
		text = strings.Replace(text, "ingress:\n", "ingress:\n  namespaces: ["+namespaces+"]\n", 1)
		text += "instance: " + instance + "\nclusterDefaults: {namespaces: {include: [" + namespaces + "]}}\n"
		w.must(os.WriteFile(config+".next", []byte(text), 0o600))
		w.must(os.Rename(config+".next", config))
	}
	second, listen := filepath.Join(w.dir, "second.yaml"), free(t)
	of(w.config, w.listen, "one", "shop, pay")
	of(second, listen, "two", "other")
	w.start()
	other := fleettest.RunTributary(t, fleet.TributaryOptions{Config: second})
	w.must(other.WaitReady(ctx))
	w.shows("shop", "web", web)
	w.shows("pay", "api", api)

	// The first lets go of the namespace before the second asks for it.
	before := w.writes()
	of(w.config, w.listen, "one", "shop")
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		metrics, err := w.proc.Get(ctx, "/metrics")
		if err == nil && !strings.Contains(string(metrics), `tributary_config_reloads_total{result="ok"} 1`) {
			err = errors.New("the first has not read its configuration")
		}
		return err
	})
	of(second, listen, "two", "other, pay")
	w.conflicts(other, "other_instance")

	// Service last: nothing is made beside what has not changed hands yet.
	label := []byte(`{"metadata":{"labels":{"tributary.dev/instance":"two"}}}`)
	client := w.fleet.Ingress.Client
	list, err := client.DiscoveryV1().EndpointSlices("pay").List(ctx, metav1.ListOptions{LabelSelector: "tributary.dev/instance=one"})
	w.must(err)
	for _, slice := range list.Items {
		_, err = client.DiscoveryV1().EndpointSlices("pay").Patch(ctx, slice.Name, types.MergePatchType, label, metav1.PatchOptions{})
		w.must(err)
	}
	_, err = client.CoreV1().Endpoints("pay").Patch(ctx, "api", types.MergePatchType, label, metav1.PatchOptions{})
	w.must(err)
	_, err = client.CoreV1().Services("pay").Patch(ctx, "api", types.MergePatchType, label, metav1.PatchOptions{})
	w.must(err)
	w.conflicts(other)
	w.shows("pay", "api", api)
	if after := w.writes(); after != before {
		t.Errorf("%d writes while the namespace moved, want 0", after-before)
	}

	late := line(a, w.pod(a, "pay", "api-1", "api"), "ready+serving")
	w.shows("pay", "api", api, late)
	w.must(w.proc.Stop(ctx)) // the first has no part in it
	w.must(a.Remove(ctx, "pay", "api-0"))
	w.shows("pay", "api", late)
	w.shows("shop", "web", web)
}

// conflicts waits until a process reports conflicts for exactly these reasons.
func (w *world) conflicts(p *fleet.Tributary, want ...string) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		metrics, err := p.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		var got []string
		for line := range strings.Lines(string(metrics)) {
			rest, found := strings.CutPrefix(strings.TrimSpace(line), `tributary_conflicts{reason="`)
			if reason, value, _ := strings.Cut(rest, `"} `); found && value != "0" {
				got = append(got, reason)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("there are conflicts %q, want %q", got, want)
		}
		return nil
	})
}
