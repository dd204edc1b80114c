// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/latency"
)

// full reports whether the run is of full size. A quick one, for every `make test`,
// takes few samples, and only the steps that are short with few Services.
func full() bool { return *services >= 2000 }

// enoughFlips is the least number of removals that a p99 is taken of.
func enoughFlips() int {
	if full() {
		return 200
	}
	return 60
}

// ours selects what tributary has created.
const ours = "app.kubernetes.io/managed-by=tributary"

// TestManyServices runs all steps on one fleet, because each needs the replicas of the
// fill, and thousands of Services are expensive to fill. To run one step alone:
// -run TestManyServices/away.
func TestManyServices(t *testing.T) {
	w := newWorld(t)
	w.prepareProbe()
	w.populate()
	w.start(setup{clusters: []entry{of(w.quiet)}})
	s := w.session()
	w.flip(s, 20, nil) // warm
	idle := w.flip(s, enoughFlips(), nil)
	w.fill(s, idle)
	w.prepareSentinel()
	step := func(name string, do func()) {
		t.Run(name, func(t *testing.T) {
			defer func(parent *testing.T) { w.T = parent }(w.T)
			w.T = t
			do()
		})
	}
	step("rewrite", func() { w.rewrite(s, idle) })
	step("compare", func() { w.compareAll(s, idle) })
	s.Close()
	step("large", w.large)
	step("zero", w.zero)
	step("away", w.away)
	if full() {
		step("rounds", w.rounds)
		step("ready", w.readyAgain)
	}
}

// fill adds the bulk member while removals of the quiet member overtake it. How soon it is
// done is compared in TestColdFill.
func (w *world) fill(s *latency.Session, idle flips) {
	w.Helper()
	done, rate := w.watchBulk(*services, func(event watch.EventType, _ *corev1.Endpoints) bool { return event == watch.Added })
	w.setup = setup{clusters: []entry{of(w.quiet), of(w.bulk)}}
	w.must(w.write(w.setup))
	busy := w.flip(s, enoughFlips(), done)
	w.wait(done, "all replicas are made")
	w.compare("replicas are made", busy, idle, 4)
	w.figure("cold fill with removals overtaking it: %.0f replicas a second", rate())
	w.eventually(time.Minute, "the bulk replicas are as the member demands", func(ctx context.Context) (bool, error) {
		all, ready, err := w.ready(ctx)
		want := count(func(i int) bool { return !unready(i) })
		return all == *services && ready == want, err
	})
	w.once(bulkWrites(w.writes()), 3**services)
}

// count counts the bulk pods of a group.
func count(group func(int) bool) (n int) {
	for i := range *services {
		if group(i) {
			n++
		}
	}
	return n
}

// watchBulk watches Endpoints of bulk replicas. done closes with the n-th event that
// counts; rate is then replicas a second, from the first to the last.
func (w *world) watchBulk(n int, counts func(watch.EventType, *corev1.Endpoints) bool) (done <-chan struct{}, rate func() float64) {
	w.Helper()
	// Without a revision the watch would begin with the existing objects.
	client := w.fleet.Ingress.Client.CoreV1().Endpoints("")
	list, err := client.List(w.Context(), metav1.ListOptions{Limit: 1})
	w.must(err)
	stream, err := client.Watch(w.Context(), metav1.ListOptions{LabelSelector: ours, ResourceVersion: list.ResourceVersion})
	w.must(err)
	finished := make(chan struct{})
	var first, last time.Time
	go func() {
		defer close(finished)
		defer stream.Stop()
		seen := 0
		for event := range stream.ResultChan() {
			e, ok := event.Object.(*corev1.Endpoints)
			if !ok || !strings.HasPrefix(e.Namespace, "bulk-") || !counts(event.Type, e) {
				continue
			}
			if last = time.Now(); seen == 0 {
				first = last
			}
			if seen++; seen == n {
				return
			}
		}
	}()
	return finished, func() float64 { return float64(n-1) / last.Sub(first).Seconds() }
}

// wait waits until done is closed.
func (w *world) wait(done <-chan struct{}, what string) {
	w.Helper()
	select {
	case <-done:
	case <-time.After(3 * time.Minute):
		w.Fatalf("it is not true that %s", what)
	}
}
