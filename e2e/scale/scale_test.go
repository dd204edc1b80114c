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
)

// The least removals that a p99 is taken of.
const enoughFlips = 120

// TestManyServices takes one fleet through all steps: each needs what the one before
// it has left, and a fleet of thousands of Services is expensive to fill.
func TestManyServices(t *testing.T) {
	w := newWorld(t)
	w.prepareProbe()
	w.populate()
	bare := w.bareFill(*services)
	w.start(w.quiet)
	s := w.session()
	w.flip(s, 20, nil) // warm
	idle := w.flip(s, enoughFlips, nil)
	w.overtakeFill(func(done <-chan struct{}) flips { return w.flip(s, enoughFlips, done) }, idle, bare)
	s.Close()
	w.large()
	w.zero()
	w.away()
}

// overtakeFill adds the bulk member: all its Services are filled, while removals of
// the quiet member overtake them.
func (w *world) overtakeFill(flip func(done <-chan struct{}) flips, idle flips, bare float64) {
	w.Helper()
	done, rate := w.watchFill(*services)
	w.must(w.fleet.WriteConfig(w.config, w.listen, w.quiet, w.bulk))
	busy := flip(done)
	<-done
	w.compare("filling", busy, idle, 4)
	ours := rate()
	w.figure("cold fill: %.0f replicas a second; a bare loop of 16 workers: %.0f; ratio %.2f", ours, bare, ours/bare)
	want := count(func(i int) bool { return !unready(i) })
	w.eventually(time.Minute, "the bulk replicas are as the member demands", func(ctx context.Context) (bool, error) {
		all, ready, err := w.ready(ctx)
		return all == *services && ready == want, err
	})
	if n := len(bulkWrites(w.writes())); n != 3**services {
		w.Errorf("%d writes for %d new replicas, want 3 for each", n, *services)
	}
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

// watchFill watches bulk Endpoints come up. done closes with the n-th; rate is then
// replicas a second, from the first to the last.
func (w *world) watchFill(n int) (done <-chan struct{}, rate func() float64) {
	w.Helper()
	stream, err := w.fleet.Ingress.Client.CoreV1().Endpoints("").Watch(w.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=tributary"})
	w.must(err)
	finished := make(chan struct{})
	var first, last time.Time
	go func() {
		defer close(finished)
		defer stream.Stop()
		seen := 0
		for event := range stream.ResultChan() {
			e, ok := event.Object.(*corev1.Endpoints)
			if !ok || event.Type != watch.Added || !strings.HasPrefix(e.Namespace, "bulk-") {
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
