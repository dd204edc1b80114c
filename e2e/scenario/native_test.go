// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/sync/errgroup"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// The backlog of the throttled controller manager. Stock flags allow 20 requests a
// second; the few Services of a quick run need fewer to be slow.
var (
	nativeServices = flag.Int("native.services", 40, "Services that are relabelled while the member's controller manager is throttled")
	nativeQPS      = flag.Float64("native.qps", 2, "requests a second of the throttled controller manager")
)

// TestObserveNative holds a member's own controller manager against what
// Tributary computes: a healthy one is level, a throttled one runs behind.
func TestObserveNative(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx := t.Context()
	a := w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	objects := []metav1.Object{fleet.NewService("shop", "web")}
	for i := range *nativeServices {
		objects = append(objects, fleet.NewService("shop", fmt.Sprintf("other-%d", i)))
	}
	w.must(a.Create(ctx, objects...))
	web := w.pod(a, "shop", "web-0", "web")
	healthy := w.controllerManager(a, "--kube-api-qps=500", "--kube-api-burst=500")
	w.must(os.WriteFile(w.config, []byte(w.plainConfig("- name: idc-a\n  kubeconfig: "+a.Kubeconfig+"\n  observeNative: true\n")), 0o600))
	w.start()
	level := func(n native) bool { return n.BehindSeconds == 0 && n.DifferingCount == 0 }
	w.native("level with it", soon, level)
	for range 5 {
		w.must(a.MarkNotReady(ctx, "shop", "web-0"))
		w.must(a.MarkReady(ctx, "shop", "web-0"))
	}
	w.native("level with it again", soon, level)
	if n := w.nativeLags(); n == 0 {
		t.Error("no lag was measured on a healthy controller manager")
	}

	healthy.Kill()
	w.controllerManager(a, fmt.Sprintf("--kube-api-qps=%v", *nativeQPS), "--kube-api-burst=1")
	w.awake(a)
	w.relabel(a)
	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	turned := time.Now()
	drained := time.Duration(float64(*nativeServices) / *nativeQPS * float64(time.Second))
	var peak float64
	w.native("behind by much of the backlog", drained+soon, func(n native) bool {
		peak = max(peak, n.BehindSeconds)
		return n.BehindSeconds > min(2, drained.Seconds()/8)
	})
	ours := w.notReadyInIngress(web)
	w.native("level when the backlog is worked off", 2*drained+soon, func(n native) bool {
		peak = max(peak, n.BehindSeconds)
		return level(n)
	})
	if peak < drained.Seconds()/8 {
		t.Errorf("at most %.1f s behind, while %d Services at %v a second take %v", peak, *nativeServices, *nativeQPS, drained)
	}
	t.Logf("%d Services at %v requests a second: the member's own controller manager was %.1f s behind at most, and level after %.1f s; the ingress cluster had the change after %v",
		*nativeServices, *nativeQPS, peak, time.Since(turned).Seconds(), ours)
	w.must(w.proc.Stop(ctx))
}

// notReadyInIngress returns how long the last change took by which the pod's
// address turned not ready in the ingress cluster.
func (w *world) notReadyInIngress(pod *corev1.Pod) time.Duration {
	w.Helper()
	body, err := w.proc.Get(w.Context(), "/debug/changes?ip="+pod.Status.PodIP)
	w.must(err)
	written := slices.DeleteFunc(bytes.Split(body, []byte("\n")), func(line []byte) bool { return !bytes.Contains(line, []byte(`"result":"written"`)) })
	if len(written) == 0 {
		w.Fatalf("no change of %s was written", pod.Status.PodIP)
	}
	body = written[len(written)-1]
	var record struct {
		Unreadied []string
		Stages    map[string]float64 `json:"stages_ms"`
	}
	w.must(json.Unmarshal(body, &record))
	if len(record.Unreadied) != 1 {
		w.Errorf("the last change of %s is %s", pod.Status.PodIP, body)
	}
	return time.Duration(record.Stages["total"] * float64(time.Millisecond))
}

// nativeLags is how many lags of idc-a's controller manager were measured.
func (w *world) nativeLags() int {
	w.Helper()
	page, err := w.proc.Get(w.Context(), "/metrics")
	w.must(err)
	for line := range strings.Lines(string(page)) {
		if text, ok := strings.CutPrefix(line, `tributary_native_lag_seconds_count{member_cluster="idc-a"} `); ok {
			n, err := strconv.Atoi(strings.TrimSpace(text))
			w.must(err)
			return n
		}
	}
	return 0
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
func (w *world) native(what string, patience time.Duration, holds func(native) bool) {
	w.Helper()
	pace := time.NewTicker(200 * time.Millisecond) // a status may name hundreds of Services
	defer pace.Stop()
	fleettest.Eventually(w.T, patience, func(ctx context.Context) error {
		<-pace.C
		body, err := w.proc.Get(ctx, "/debug/status")
		if err != nil {
			return err
		}
		var status struct{ Clusters []struct{ Native *native } }
		if err := json.Unmarshal(body, &status); err != nil {
			return err
		}
		if len(status.Clusters) != 1 || status.Clusters[0].Native == nil || !holds(*status.Clusters[0].Native) {
			return fmt.Errorf("want the controller manager %s: %.2000s", what, body)
		}
		return nil
	})
}

// controllerManager starts the member's own endpoints controller and waits
// until every Service has its Endpoints.
func (w *world) controllerManager(site *fleet.Site, flags ...string) *cluster.Process {
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

// awake returns once the controller manager has been through every Service, as it
// does in any order after its start: later changes then queue behind each other as
// they come. It writes the Endpoints of a new Service only when it works.
func (w *world) awake(site *fleet.Site) {
	w.Helper()
	w.must(site.Create(w.Context(), fleet.NewService("shop", "canary")))
	fleettest.Eventually(w.T, time.Minute, func(ctx context.Context) error {
		_, err := site.Client.CoreV1().Endpoints("shop").Get(ctx, "canary", metav1.GetOptions{})
		return err
	})
}

// relabel changes every Service but web, which makes a controller manager write
// all their Endpoints again.
func (w *world) relabel(site *fleet.Site) {
	w.Helper()
	list, err := site.Client.CoreV1().Services("shop").List(w.Context(), metav1.ListOptions{})
	w.must(err)
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(16)
	for i := range list.Items {
		if list.Items[i].Name == "web" {
			continue
		}
		list.Items[i].Labels = map[string]string{"relabelled": "yes"}
		group.Go(func() error {
			_, err := site.Client.CoreV1().Services("shop").Update(ctx, &list.Items[i], metav1.UpdateOptions{})
			return err
		})
	}
	w.must(group.Wait())
}
