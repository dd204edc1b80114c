// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

var getOptions = metav1.GetOptions{}

// large gives one replica more addresses than Endpoints may have: they are cut off
// and say so, the slices have them all, and a change costs two writes.
func (w *world) large() {
	w.Helper()
	ctx, n := w.Context(), 1200
	if *services >= 2000 {
		n = 5000
	}
	w.must(w.quiet.Create(ctx, fleet.NewService(probe, "large")))
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = fleet.NewPod(probe, fmt.Sprintf("large-%05d", i), "large")
	}
	start, before := time.Now(), len(w.writes())
	w.must(w.quiet.RunPods(ctx, pods...))
	made := time.Since(start)
	w.largeShows(n, n)
	w.figure("a replica of %d addresses: pods made in %.1f s, all visible %.1f s later, %d writes", n, made.Seconds(), (time.Since(start) - made).Seconds(), len(w.writes())-before)
	before = len(w.writes())
	w.must(w.quiet.MarkNotReady(ctx, probe, pods[0].Name))
	w.largeShows(n, n-1)
	for _, one := range w.writes()[before:] {
		if one.Resource == "services" {
			w.Errorf("a pod's change wrote the Service")
		}
	}
	if writes := len(w.writes()) - before; writes > 2 {
		w.Errorf("%d writes for one of %d pods, want at most 2", writes, n)
	}
}

// largeShows waits until the slices have all addresses, so many of them ready, and
// Endpoints have a thousand and the annotation.
func (w *world) largeShows(all, ready int) {
	w.Helper()
	client := w.fleet.Ingress.Client
	w.eventually(3*time.Minute, fmt.Sprintf("%d of %d addresses are ready", ready, all), func(ctx context.Context) (bool, error) {
		list, err := client.DiscoveryV1().EndpointSlices(probe).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=large"})
		if err != nil {
			return false, err
		}
		seen, up := map[string]bool{}, 0
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if seen[e.Addresses[0]] {
					return false, fmt.Errorf("%s is in two slices", e.Addresses[0])
				}
				seen[e.Addresses[0]] = true
				if *e.Conditions.Ready {
					up++
				}
			}
		}
		e, err := client.CoreV1().Endpoints(probe).Get(ctx, "large", getOptions)
		if err != nil {
			return false, err
		}
		count := 0
		for _, s := range e.Subsets {
			count += len(s.Addresses) + len(s.NotReadyAddresses)
		}
		if len(seen) != all || up != ready || count != 1000 || e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
			return false, fmt.Errorf("slices have %d addresses, %d ready; Endpoints %d, annotations %v", len(seen), up, count, e.Annotations)
		}
		return true, nil
	})
}
