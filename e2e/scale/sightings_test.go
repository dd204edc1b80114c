// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sightings is what a consumer of the large replica sees, event by event.
type sightings struct {
	mu sync.Mutex
	// known are the slices by name, places in how many of them an address is.
	known  map[string][]string
	places map[string]int
	// numbers are the addresses' pods; those below required are wanted before and after
	// a change, and so must never be missing.
	numbers  map[string]int
	required int
	missing  string
}

// watchLarge follows the slices and Endpoints of the large replica until the step ends.
func (w *world) watchLarge(pods []*corev1.Pod) *sightings {
	w.Helper()
	s := &sightings{known: map[string][]string{}, places: map[string]int{}, numbers: map[string]int{}}
	for i, pod := range pods {
		s.numbers[pod.Status.PodIP] = i
	}
	ctx, client := w.Context(), w.fleet.Ingress.Client
	list, err := client.DiscoveryV1().EndpointSlices(probe).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=large"})
	w.must(err)
	for i := range list.Items {
		s.slice(watch.Added, &list.Items[i])
	}
	slices, err := client.DiscoveryV1().EndpointSlices(probe).Watch(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=large", ResourceVersion: list.ResourceVersion})
	w.must(err)
	endpoints, err := client.CoreV1().Endpoints(probe).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=large", ResourceVersion: list.ResourceVersion})
	w.must(err)
	var group sync.WaitGroup
	w.Cleanup(func() { slices.Stop(); endpoints.Stop(); group.Wait() })
	group.Go(func() {
		for event := range slices.ResultChan() {
			if one, ok := event.Object.(*discoveryv1.EndpointSlice); ok {
				s.slice(event.Type, one)
			}
		}
	})
	group.Go(func() {
		for event := range endpoints.ResultChan() {
			if one, ok := event.Object.(*corev1.Endpoints); ok {
				s.endpoints(event.Type, one)
			}
		}
	})
	return s
}

func (s *sightings) slice(event watch.EventType, one *discoveryv1.EndpointSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.known[one.Name]
	if event == watch.Deleted {
		delete(s.known, one.Name)
	} else {
		var now []string
		for _, e := range one.Endpoints {
			now = append(now, e.Addresses[0])
			s.places[e.Addresses[0]]++
		}
		s.known[one.Name] = now
	}
	for _, address := range former {
		if s.places[address]--; s.places[address] == 0 {
			delete(s.places, address)
			if s.numbers[address] < s.required {
				s.missing = fmt.Sprintf("%s was in no slice for a moment, after the event %s of %s", address, event, one.Name)
			}
		}
	}
}

func (s *sightings) endpoints(event watch.EventType, one *corev1.Endpoints) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := countAddresses(one); event == watch.Deleted || n < min(s.required, perEndpoints) {
		s.missing = fmt.Sprintf("Endpoints had %d addresses for a moment, after the event %s", n, event)
	}
}

// require sets below which number the pods' addresses must not be missing from now on.
func (s *sightings) require(below int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.required, s.missing = below, ""
}

// lost returns what was missing since require, "" for nothing.
func (s *sightings) lost() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missing
}

// slices counts the slices that were seen.
func (s *sightings) slices() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}
