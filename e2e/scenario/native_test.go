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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestObserveNative holds a member's own controller manager against what
// Tributary computes: a healthy one is level, a throttled one runs behind.
func TestObserveNative(t *testing.T) {
	const backlog = 40
	w := newWorld(t)
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	for i := range backlog {
		w.must(a.Create(ctx, fleet.NewService("shop", fmt.Sprintf("other-%d", i))))
	}
	w.pod(a, "shop", "web-0", "web")
	healthy := w.controllerManager(a, "--kube-api-qps=500", "--kube-api-burst=500")
	w.must(os.WriteFile(w.config, []byte(w.plainConfig("- name: idc-a\n  kubeconfig: "+a.Kubeconfig+"\n  observeNative: true\n  nativeTolerance: 1s\n")), 0o600))
	w.start()
	w.native("level with it", func(n native) bool { return n.BehindSeconds == 0 && n.DifferingCount == 0 })
	for range 5 {
		w.must(a.MarkNotReady(ctx, "shop", "web-0"))
		w.must(a.MarkReady(ctx, "shop", "web-0"))
	}
	w.native("level with it again", func(n native) bool { return n.BehindSeconds == 0 && n.DifferingCount == 0 })
	metrics, err := w.proc.Get(ctx, "/metrics")
	w.must(err)
	if !strings.Contains(string(metrics), `tributary_native_lag_seconds_count{cluster="idc-a"}`) {
		t.Error("no lag was measured on a healthy controller manager")
	}

	healthy.Kill()
	w.controllerManager(a, "--kube-api-qps=2", "--kube-api-burst=1")
	w.relabel(a)
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.native("2 s behind, with both lists of shop/web", func(n native) bool {
		for _, d := range n.Differing {
			if d.Service == "web" && n.BehindSeconds > 2 {
				return len(d.Ours) == 1 && len(d.Theirs) == 1 && d.Ours[0] != d.Theirs[0]
			}
		}
		return false
	})
	w.must(w.proc.Stop(ctx))
}

// native is what a status says of one member's own controllers.
type native struct {
	BehindSeconds  float64
	DifferingCount int
	Differing      []struct {
		Service      string
		Ours, Theirs []string
	}
}

// native waits until the status of idc-a says so.
func (w *world) native(what string, holds func(native) bool) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct{ Clusters []struct{ Native *native } }
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		if len(status.Clusters) != 1 || status.Clusters[0].Native == nil || !holds(*status.Clusters[0].Native) {
			return fmt.Errorf("want the controller manager %s: %s", what, body)
		}
		return nil
	})
}

// controllerManager starts the member's own endpoints controller and waits
// until every Service has its Endpoints.
func (w *world) controllerManager(site *fleet.Site, flags ...string) *cluster.ControllerManager {
	w.Helper()
	manager, err := site.StartControllerManager(w.Context(), cluster.ControllerManagerOptions{Controllers: []string{"endpoints-controller"}, Flags: flags})
	w.must(err)
	fleettest.Eventually(w.T, time.Minute, func(ctx context.Context) error {
		services, err := site.Client.CoreV1().Services("shop").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		endpoints, err := site.Client.CoreV1().Endpoints("shop").List(ctx, metav1.ListOptions{})
		if err == nil && len(endpoints.Items) < len(services.Items) {
			err = fmt.Errorf("%d of %d Services have Endpoints", len(endpoints.Items), len(services.Items))
		}
		return err
	})
	return manager
}

// relabel changes every Service but web, which makes a controller manager write
// all their Endpoints again.
func (w *world) relabel(site *fleet.Site) {
	w.Helper()
	list, err := site.Client.CoreV1().Services("shop").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for i := range list.Items {
		if list.Items[i].Name == "web" {
			continue
		}
		list.Items[i].Labels = map[string]string{"relabelled": "yes"}
		_, err := site.Client.CoreV1().Services("shop").Update(w.Context(), &list.Items[i], metav1.UpdateOptions{})
		w.must(err)
	}
}
