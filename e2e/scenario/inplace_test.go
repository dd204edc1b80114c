// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

const (
	// inPlacePods pods of each Service are upgraded at once; their kubelets take inPlaceTime over them, one by one.
	inPlacePods = 40
	inPlaceTime = 10 * time.Second
	// inPlaceStay pods of each are left as they are, so that no Service is without.
	inPlaceStay = 4
	// warmUp is how long a container that was just started is ready, and not, in turn: a twentieth of stableFor, for on a
	// busy machine the kubelets are late.
	warmUp = 400 * time.Millisecond
)

// TestUpgradeInPlace changes the image of many pods at once, of one Service with a readiness probe and of one without.
// Their kubelets first say nothing new, then replace one container after the other. A probe turns the pod not ready, and
// once more while the new container warms up; without one the kubelet says ready throughout. With stableFor a consumer of
// the ingress cluster sees each address that its kubelet takes off leave once and return once, and with the rule of the
// documentation, added while everything runs, every address, before its container is stopped; and so does the receiver of
// a sink, with its windows as they are unless set. Beside it runs
// a consumer of the member, which sees what its own controller writes.
func TestUpgradeInPlace(t *testing.T) {
	w := newWorld(t, "idc-a")
	ctx, a := t.Context(), w.fleet.Member("idc-a")
	w.must(a.CreateNamespaces(ctx, "shop"))
	w.must(a.CreateNodes(ctx, fleet.NewNode(fleet.DefaultNode, "zone-a")))
	w.must(a.Create(ctx, fleet.NewService("shop", "probed"), fleet.NewService("shop", "unprobed")))
	probed, unprobed := w.manyPods(a, "probed"), w.manyPods(a, "unprobed")
	_, err := a.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: []string{"endpointslice-controller"}})
	w.must(err)
	outside := map[string]*consumer{"shop/probed": newConsumer(), "shop/unprobed": newConsumer()}
	slb := httptest.NewServer(tells(t, outside))
	t.Cleanup(slb.Close)
	config := w.plainConfig("- name: idc-a\n  kubeconfig: "+a.Kubeconfig+"\n") + "clusterDefaults: {stableFor: 8s}\nsinks: [{name: slb, url: \"" + slb.URL + "\"}]\n"
	w.must(os.WriteFile(w.config, []byte(config), 0o600))
	w.start()
	ours, native := map[string]*consumer{}, map[string]*consumer{}
	for _, service := range []string{"probed", "unprobed"} {
		ours[service], native[service] = w.consume(w.fleet.Ingress.Client, service), w.consume(a.Client, service)
		w.startsWith(outside["shop/"+service])
	}

	play := func(image string, left func()) {
		w.upgrade(a, append(probed[:inPlacePods:inPlacePods], unprobed[:inPlacePods]...), image)
		left()
		group, playing := errgroup.WithContext(ctx)
		for i := range inPlacePods {
			due := time.Duration(i) * inPlaceTime / inPlacePods
			group.Go(func() error { return replaceProbed(playing, a, probed[i], due) })
			group.Go(func() error {
				if err := wait(playing, due); err != nil {
					return err
				}
				return a.Restarted(playing, unprobed[i])
			})
		}
		w.explainsWaiting()
		w.must(group.Wait())
		w.settled(ours, native, outside)
	}
	judge := func(with, service string, want int) {
		for where, c := range map[string]*consumer{"in the ingress cluster": ours[service], "at the receiver": outside["shop/"+service]} {
			all := c.transitions()
			for address, n := range all {
				if n != want {
					t.Errorf("with %s: %s of %s: %d transitions %s, want %d", with, address, service, n, where, want)
				}
			}
			if want > 0 && len(all) != inPlacePods {
				t.Errorf("with %s: %d addresses of %s flipped %s, want %d", with, len(all), service, where, inPlacePods)
			}
		}
		t.Logf("%d pods of %s upgraded in place with %s: %d transitions in the ingress cluster, %d at the receiver, %d by the member's own controller",
			inPlacePods, service, with, ours[service].total(), outside["shop/"+service].total(), native[service].total())
	}

	play("app:2", func() {})
	judge("stableFor", "probed", 2)
	judge("stableFor", "unprobed", 0)
	if n := native["probed"].total(); n <= 2*inPlacePods {
		t.Errorf("the member's own controller shows %d transitions: the pods did not flap", n)
	}
	for _, all := range []map[string]*consumer{ours, native, outside} {
		for _, c := range all {
			c.begin()
		}
	}
	w.must(os.WriteFile(w.config, []byte(config+"rules:\n"+imageRule), 0o600))
	play("app:3", func() {
		fleettest.Eventually(t, soon, func(context.Context) error {
			for _, c := range []*consumer{ours["probed"], ours["unprobed"], outside["shop/probed"], outside["shop/unprobed"]} {
				if n := c.ready(); n != inPlaceStay {
					return fmt.Errorf("%d addresses take traffic while the old containers still run, want %d", n, inPlaceStay)
				}
			}
			return nil
		})
	})
	judge("stableFor and a rule", "probed", 2)
	judge("stableFor and a rule", "unprobed", 2)
	if code, out := w.command("trace", "--server", w.proc.URL, "--service", "shop/probed"); code != 0 || !strings.Contains(out, " time") {
		t.Errorf("trace: exit %d, and no return is said to come of time alone:\n%s", code, out)
	}
	w.must(w.proc.Stop(ctx))
}

// manyPods makes ready pods of an app.
func (w *world) manyPods(site *fleet.Site, app string) []*corev1.Pod {
	w.Helper()
	pods := make([]*corev1.Pod, inPlacePods+inPlaceStay)
	for i := range pods {
		pods[i] = fleet.NewPod("shop", fmt.Sprintf("%s-%d", app, i), app)
	}
	w.must(site.RunPods(w.Context(), pods...))
	return pods
}

// upgrade changes the image of all pods at once.
func (w *world) upgrade(site *fleet.Site, pods []*corev1.Pod, image string) {
	w.Helper()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(16)
	for _, pod := range pods {
		group.Go(func() error { return site.SetImage(ctx, pod, image) })
	}
	w.must(group.Wait())
}

// replaceProbed is what a kubelet does to one pod with a readiness probe: the probe fails as the old container ends, and
// once more while the new one warms up.
func replaceProbed(ctx context.Context, site *fleet.Site, pod *corev1.Pod, due time.Duration) error {
	for _, step := range []struct {
		after time.Duration
		do    func() error
	}{
		{due, func() error { return site.MarkNotReady(ctx, pod.Namespace, pod.Name) }},
		{warmUp / 2, func() error { return site.Restarted(ctx, pod) }},
		{warmUp / 2, func() error { return site.MarkReady(ctx, pod.Namespace, pod.Name) }},
		{warmUp, func() error { return site.MarkNotReady(ctx, pod.Namespace, pod.Name) }},
		{warmUp, func() error { return site.MarkReady(ctx, pod.Namespace, pod.Name) }},
	} {
		if err := wait(ctx, step.after); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explainsWaiting waits until an endpoint waits, and is counted and explained.
func (w *world) explainsWaiting() {
	w.Helper()
	fleettest.Eventually(w.T, inPlaceTime, func(ctx context.Context) error {
		page, err := w.proc.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		explained, err := w.proc.Get(ctx, "/debug/explain?service=shop/probed")
		if err != nil {
			return err
		}
		if inReserve(page) == "0" || !strings.Contains(string(explained), "for less than stableFor") {
			return errors.New("no endpoint that waits is counted and explained")
		}
		return nil
	})
}

// inReserve is the number of idc-a's endpoints in reserve, by its metrics.
func inReserve(page []byte) string {
	_, rest, _ := strings.Cut(string(page), `tributary_endpoints{member_cluster="idc-a",state="reserve"} `)
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// settled waits until all consumers see all pods ready, and nothing waits any more.
func (w *world) settled(consumers ...map[string]*consumer) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		page, err := w.proc.Get(ctx, "/metrics")
		if err != nil {
			return err
		}
		if inReserve(page) != "0" {
			return errors.New("endpoints are in reserve")
		}
		for _, all := range consumers {
			for service, c := range all {
				if n := c.ready(); n != inPlacePods+inPlaceStay {
					return fmt.Errorf("%d of %d addresses of %s are ready", n, inPlacePods+inPlaceStay, service)
				}
			}
		}
		return nil
	})
}

// consumer is somebody who watches the slices of one Service, as an ingress controller does, or is told of it, and counts
// how often each address comes to take traffic, and ceases to.
type consumer struct {
	mu     sync.Mutex
	slices map[string]map[string]bool // readiness by slice and address
	takes  map[string]bool            // addresses that take traffic
	flips  map[string]int
}

func newConsumer() *consumer {
	return &consumer{slices: map[string]map[string]bool{}, takes: map[string]bool{}, flips: map[string]int{}}
}

// tells passes on what a receiver is told of each Service.
func tells(t *testing.T, to map[string]*consumer) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var batch []event
		if err := json.NewDecoder(r.Body).Decode(&batch); err != nil {
			t.Errorf("told what is no batch: %v", err)
		}
		for _, e := range batch {
			if e.Type == typeInventory {
				continue
			}
			of := map[string]bool{}
			for _, endpoint := range e.Data.Endpoints {
				of[endpoint.Address] = endpoint.Ready
			}
			to[e.Subject].see("", of)
		}
	})
}

// consume watches from when all pods are ready.
func (w *world) consume(client kubernetes.Interface, service string) *consumer {
	w.Helper()
	c := newConsumer()
	stream, err := client.DiscoveryV1().EndpointSlices("shop").Watch(w.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	w.must(err)
	var done sync.WaitGroup
	done.Go(func() {
		for event := range stream.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			of := map[string]bool{}
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; event.Type != watch.Deleted {
					of[e.Addresses[0]] = e.Conditions.Ready == nil || *e.Conditions.Ready
				}
			}
			c.see(slice.Name, of)
		}
	})
	w.Cleanup(func() {
		stream.Stop()
		done.Wait()
	})
	w.startsWith(c)
	return c
}

// startsWith waits until a consumer has all pods, and counts from then.
func (w *world) startsWith(c *consumer) {
	w.Helper()
	fleettest.Eventually(w.T, soon, func(context.Context) error {
		if n := c.ready(); n != inPlacePods+inPlaceStay {
			return fmt.Errorf("%d of %d addresses are ready at the start", n, inPlacePods+inPlaceStay)
		}
		return nil
	})
	c.begin()
}

// begin counts anew.
func (c *consumer) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.flips)
}

// see takes what the addresses of a slice are.
func (c *consumer) see(slice string, of map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slices[slice] = of
	takes := map[string]bool{}
	for _, of := range c.slices {
		for address, ready := range of {
			if ready {
				takes[address] = true
			}
		}
	}
	for address := range takes {
		if !c.takes[address] {
			c.flips[address]++
		}
	}
	for address := range c.takes {
		if !takes[address] {
			c.flips[address]++
		}
	}
	c.takes = takes
}

// ready counts the addresses that take traffic.
func (c *consumer) ready() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.takes)
}

// transitions are those of each address that had any.
func (c *consumer) transitions() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.flips)
}

func (c *consumer) total() (n int) {
	for _, of := range c.transitions() {
		n += of
	}
	return n
}
