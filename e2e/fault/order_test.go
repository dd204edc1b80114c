// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

// editAll changes the first n Services of a member whose names begin with edited, several at a time.
func (w *world) editAll(n int, change func(*corev1.Service)) {
	w.Helper()
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			client := w.a.Client.CoreV1().Services(w.ns)
			svc, err := client.Get(w.Context(), fmt.Sprintf("edited-%d", i), getNow)
			if err == nil {
				change(svc)
				_, err = client.Update(w.Context(), svc, metav1.UpdateOptions{})
			}
			if err != nil {
				w.Error(err)
			}
		})
	}
	all.Wait()
}

// TestRemovalsGoBeforeEdits limits requests to twenty a second on this side, and edits many
// Services at once: labels, and ports that are added, which take nothing away. A pod that
// turns not ready meanwhile waits for none of them.
func TestRemovalsGoBeforeEdits(t *testing.T) {
	w := newWorld(t, "order")
	ctx := t.Context()
	n := size(60, 200)
	w.service("web", 6, w.a)
	for i := range n {
		w.must(w.a.Create(ctx, fleet.NewService(w.ns, fmt.Sprintf("edited-%d", i))))
	}
	w.start()
	w.converges(20 * time.Second)
	w.settled()
	w.config.client = map[string]int{"qps": 20, "burst": 20}
	w.must(w.config.write())
	w.pause(2 * time.Second)
	w.laws.Bound = w.within(60 * time.Second)
	for round, change := range []func(*corev1.Service){
		func(s *corev1.Service) { s.Labels = map[string]string{"team": "blue"} },
		func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.ProtocolTCP})
		},
	} {
		w.editAll(n, change)
		for i := range 2 {
			name := fmt.Sprintf("web-%d", 2*round+i)
			pod, err := w.a.Client.CoreV1().Pods(w.ns).Get(ctx, name, getNow)
			w.must(err)
			w.must(w.a.MarkNotReady(ctx, w.ns, name))
			took := w.eventually(time.Second, w.lacks("web", pod.Status.PodIP))
			t.Logf("round %d: %s is gone after %s", round, name, took)
		}
		w.settled()
	}
	w.converges(10 * time.Second)
	w.judge()
}

// TestAdditionsDoNotStarve turns pods not ready and ready again as fast as the members take
// it, under a limit of requests that is too low for that: new pods are served all the same.
func TestAdditionsDoNotStarve(t *testing.T) {
	w := newWorld(t, "starve")
	ctx := t.Context()
	const services = 8
	for i := range services {
		w.service(fmt.Sprintf("busy-%d", i), 4, w.a)
	}
	w.service("web", 1, w.b)
	w.config.client = map[string]int{"qps": 20, "burst": 20}
	w.laws.Bound = w.within(60 * time.Second)
	w.start()
	w.converges(30 * time.Second)
	flipping, stop := context.WithCancel(ctx)
	var flips sync.WaitGroup
	for k := range 4 {
		flips.Go(func() {
			for i := k; flipping.Err() == nil; i += 4 {
				name := fmt.Sprintf("busy-%d-%d", i%services, i/services%4)
				_ = w.a.MarkNotReady(flipping, w.ns, name) // until the end
				_ = w.a.MarkReady(flipping, w.ns, name)
			}
		})
	}
	w.pause(2 * time.Second)
	w.pods(w.b, "web", 100, 1)
	took := w.eventually(5*time.Second, w.counts("web", 2))
	stop()
	flips.Wait()
	t.Logf("a new pod was served after %s", took)
	w.converges(30 * time.Second)
	w.judge()
}
