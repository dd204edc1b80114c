// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestR19Poison has pods with addresses that the API would refuse in Endpoints, or
// that their cluster must not have. Each is left out by itself and told; all good
// ones are written, and no other Service waits.
func TestR19Poison(t *testing.T) {
	w := newWorld(t, "r19")
	ctx := t.Context()
	w.config.set(w.a.Name(), w.a.Kubeconfig).AllowedCIDRs = []string{w.a.PodCIDR.String()}
	w.service("web", 4, w.a, w.b)
	w.service("good", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	poison := []string{"169.254.169.254", "127.0.0.1", "0.0.0.0", "224.0.0.1", "fe80::1", "::1"}
	for i, ip := range poison {
		w.must(w.b.SetPodIPs(ctx, w.ns, "web-0", ip))
		took := w.eventually(5*time.Second, w.counts("web", 7))
		at := w.seen(w.a, fmt.Sprintf("beside-%d", i))
		t.Logf("%s: left out after %s; a pod of the other member took %s", ip, took, at)
		w.must(w.a.Remove(ctx, w.ns, fmt.Sprintf("beside-%d", i)))
		w.must(w.b.SetPodIPs(ctx, w.ns, "web-0", w.b.NextIP().String()))
		w.converges(5 * time.Second)
	}
	// Out of the member's ranges.
	w.must(w.a.SetPodIPs(ctx, w.ns, "web-0", "203.0.113.9"))
	w.eventually(5*time.Second, w.counts("web", 7))
	w.eventually(5*time.Second, func(ctx context.Context) error {
		s, err := w.status(ctx)
		if err == nil && s.RejectedCount != 1 {
			err = fmt.Errorf("%d addresses are reported as rejected, want 1", s.RejectedCount)
		}
		return err
	})
	w.must(w.a.SetPodIPs(ctx, w.ns, "web-0", w.a.NextIP().String()))
	w.converges(5 * time.Second)
	w.judge()
}

// TestR19Large has a replica with more addresses than Endpoints hold. They are cut
// and say so, the slices have all.
func TestR19Large(t *testing.T) {
	w := newWorld(t, "r19b")
	pods := size(1100, 5000)
	w.service("large", pods-100, w.a)
	w.service("large", 100, w.b)
	w.service("small", 2, w.b)
	w.start()
	filled := w.converges(20 * time.Second)
	e, err := w.ingress.Client.CoreV1().Endpoints(w.ns).Get(t.Context(), "large", metav1.GetOptions{})
	w.must(err)
	n := 0
	for _, s := range e.Subsets {
		n += len(s.Addresses)
	}
	if mark := e.Annotations[corev1.EndpointsOverCapacity]; n != 1000 || mark != "truncated" {
		t.Errorf("Endpoints have %d addresses and are marked %q, want 1000 and \"truncated\"", n, mark)
	}
	list, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=large"})
	w.must(err)
	if want := (pods-100+99)/100 + 1; len(list.Items) != want {
		t.Errorf("%d slices, want %d", len(list.Items), want)
	}
	small := w.pods(w.b, "small", 100, 1)
	took := w.eventually(5*time.Second, func(ctx context.Context) error { return w.hasReady(ctx, "small", small[0].Status.PodIP) })
	t.Logf("%d pods were there %s after it was ready; one of another Service took %s", pods, filled, took)
	w.unchanged()
	w.judge()
}
