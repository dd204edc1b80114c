// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

var getOptions = metav1.GetOptions{}

const (
	// perSlice and perEndpoints are how many addresses an object may have.
	perSlice     = 100
	perEndpoints = 1000
	// upTo is the prefix of a label of the pods below a number.
	upTo = "up-to-"
)

// large makes one replica of more addresses than Endpoints may have: Endpoints are truncated
// and annotated, the slices have all, and a change costs two writes. Then it shrinks and
// grows through the sizes at which objects come and go.
func (w *world) large() {
	w.Helper()
	sizes := []int{210, 101, 100, 99, 1, 0}
	if full() {
		sizes = slices.Concat([]int{5000, 1001, 1000}, sizes[1:])
	}
	ctx, n := w.Context(), sizes[0]
	w.must(w.quiet.Create(ctx, fleet.NewService(probe, "large")))
	pods := make([]*corev1.Pod, n)
	for i := range pods {
		pods[i] = fleet.NewPod(probe, fmt.Sprintf("large-%05d", i), "large")
		for _, size := range sizes {
			if i < size {
				pods[i].Labels[upTo+strconv.Itoa(size)] = ""
			}
		}
	}
	start, before := time.Now(), len(w.writes())
	w.must(w.quiet.RunPods(ctx, pods...))
	made := time.Since(start)
	w.largeShows(n, n)
	w.figure("a replica of %d addresses: pods made in %.1f s, all visible %.1f s later, %d writes", n, made.Seconds(), (time.Since(start) - made).Seconds(), len(w.writes())-before)
	for _, ready := range []bool{false, true} {
		before, start = len(w.writes()), time.Now()
		w.must(mark(ctx, w.quiet, probe, pods[0].Name, ready))
		w.largeShows(n, map[bool]int{false: n - 1, true: n}[ready])
		w.figure("one of them becomes ready=%v: seen %.0f ms later at the most", ready, 1000*time.Since(start).Seconds())
		if writes := w.writes()[before:]; len(writes) > 2 || writes[0].Resource == "services" {
			w.Errorf("%d writes for one of %d pods, want 2 at most and none of the Service: %+v", len(writes), n, writes)
		}
	}
	w.resizeAll(sizes, pods)
}

// resizeAll resizes the replica through the sizes and back, by editing its Service's
// selector.
func (w *world) resizeAll(sizes []int, pods []*corev1.Pod) {
	w.Helper()
	seen := w.watchLarge(pods)
	from := sizes[0]
	for _, size := range sizes[1:] {
		w.resize(seen, from, size)
		from = size
	}
	for i := len(sizes) - 2; i >= 0; i-- {
		w.resize(seen, from, sizes[i])
		from = sizes[i]
	}
}

func (w *world) resize(seen *sightings, from, to int) {
	w.Helper()
	ctx, client := w.Context(), w.quiet.Client.CoreV1().Services(probe)
	seen.require(min(from, to))
	before, had := len(w.writes()), seen.slices()
	service, err := client.Get(ctx, "large", getOptions)
	w.must(err)
	service.Spec.Selector = map[string]string{fleet.AppLabel: "large", upTo + strconv.Itoa(to): ""}
	_, err = client.Update(ctx, service, metav1.UpdateOptions{})
	w.must(err)
	start := time.Now()
	w.largeShows(to, to)
	took := time.Since(start)
	if lost := seen.lost(); lost != "" {
		w.Errorf("from %d to %d addresses: %s", from, to, lost)
	}
	objects, writes := map[string]int{}, w.writes()[before:]
	for _, one := range writes {
		if objects[one.Name]++; one.Resource == "services" || objects[one.Resource+one.Name] > 1 {
			w.Errorf("from %d to %d addresses: one write too many: %+v", from, to, one)
		}
	}
	now := seen.slices()
	if least := (to + perSlice - 1) / perSlice; now < least || to > from && now > max(had, least) && now > had+(to-from+perSlice-1)/perSlice {
		w.Errorf("from %d to %d addresses: %d slices, before %d", from, to, now, had)
	}
	w.figure("from %d to %d addresses: %d writes, %d slices, all visible within %.0f ms", from, to, len(writes), now, 1000*took.Seconds())
}

// largeShows waits until the slices have all addresses with this many ready, and Endpoints
// as many as they may have, with the annotation if those are not all.
func (w *world) largeShows(all, ready int) {
	w.Helper()
	client := w.fleet.Ingress.Client
	w.often(3*time.Minute, fmt.Sprintf("%d of %d addresses are ready", ready, all), func(ctx context.Context) error {
		list, err := client.DiscoveryV1().EndpointSlices(probe).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=large", ResourceVersion: "0"})
		if err != nil {
			return err
		}
		seen, up := map[string]bool{}, 0
		for _, s := range list.Items {
			if len(s.Endpoints) > perSlice {
				return fmt.Errorf("%s has %d endpoints", s.Name, len(s.Endpoints))
			}
			for _, e := range s.Endpoints {
				if seen[e.Addresses[0]] {
					return fmt.Errorf("%s is in two slices", e.Addresses[0])
				}
				seen[e.Addresses[0]] = true
				if *e.Conditions.Ready {
					up++
				}
			}
		}
		e, err := client.CoreV1().Endpoints(probe).Get(ctx, "large", getOptions)
		if err != nil {
			return err
		}
		count, cut := countAddresses(e), e.Annotations[corev1.EndpointsOverCapacity] == "truncated"
		if len(seen) != all || up != ready || count != min(all, perEndpoints) || cut != (all > perEndpoints) {
			return fmt.Errorf("slices have %d addresses, %d ready; Endpoints %d, annotations %v", len(seen), up, count, e.Annotations)
		}
		return nil
	})
}

func countAddresses(e *corev1.Endpoints) (n int) {
	for _, s := range e.Subsets {
		n += len(s.Addresses) + len(s.NotReadyAddresses)
	}
	return n
}
