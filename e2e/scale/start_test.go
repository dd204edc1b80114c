// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/e2e/fleet"
)

// readyAgain starts tributary where nothing is to be written, and compares the time
// until it is ready with that of only reading the same objects, alternately.
func (w *world) readyAgain() {
	w.Helper()
	ctx, before := w.Context(), len(w.writes())
	var ours, bare []time.Duration
	for range 3 {
		w.must(w.proc.Stop(ctx))
		start := time.Now()
		w.readAll()
		bare = append(bare, time.Since(start))
		start = time.Now()
		w.must(w.proc.Start(ctx))
		w.must(w.proc.WaitReady(ctx))
		ours = append(ours, time.Since(start))
	}
	slices.Sort(ours)
	slices.Sort(bare)
	w.figure("start to ready, of three the middle: %.0f ms; a bare read of the same objects: %.0f ms; ratio %.2f",
		1000*ours[1].Seconds(), 1000*bare[1].Seconds(), ours[1].Seconds()/bare[1].Seconds())
	w.eventually(time.Minute, "nothing waits", func(context.Context) (bool, error) {
		return w.is("tributary_sync_lag_seconds", "", 0)
	})
	if n := len(w.writes()) - before; n > 0 {
		w.Errorf("three starts wrote %d times", n)
	}
}

// readAll lists what tributary reads at a start, all kinds of all clusters concurrently.
func (w *world) readAll() {
	w.Helper()
	type kind struct {
		site *fleet.Site
		name string
		into runtime.Object
	}
	kinds := []kind{
		{w.fleet.Ingress, "services", &corev1.ServiceList{}}, {w.fleet.Ingress, "endpoints", &corev1.EndpointsList{}},
		{w.fleet.Ingress, "endpointslices", &discoveryv1.EndpointSliceList{}}, {w.fleet.Ingress, "namespaces", &corev1.NamespaceList{}},
	}
	for _, site := range w.fleet.Members {
		kinds = append(kinds, kind{site, "services", &corev1.ServiceList{}}, kind{site, "pods", &corev1.PodList{}}, kind{site, "namespaces", &corev1.NamespaceList{}})
	}
	errs := make([]error, len(kinds))
	var group sync.WaitGroup
	for i, k := range kinds {
		group.Go(func() { errs[i] = list(w.Context(), k.site, k.name, k.into) })
	}
	group.Wait()
	for _, err := range errs {
		w.must(err)
	}
}

func list(ctx context.Context, site *fleet.Site, kind string, into runtime.Object) error {
	client := site.Client.CoreV1().RESTClient()
	if kind == "endpointslices" {
		client = site.Client.DiscoveryV1().RESTClient()
	}
	return client.Get().Resource(kind).Param("resourceVersion", "0").Do(ctx).Into(into)
}
