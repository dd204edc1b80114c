// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/latency"
)

// tier is a label of every bulk Service, and so of its replica's three objects.
const tier = "tier"

// rewrite removes the label from every replica by a setting: each object is written
// once, and removals overtake that.
func (w *world) rewrite(s *latency.Session, idle flips) {
	w.Helper()
	before := len(w.writes())
	done, rate := w.watchBulk(*services, func(event watch.EventType, e *corev1.Endpoints) bool {
		_, labelled := e.Labels[tier]
		return event == watch.Modified && !labelled
	})
	w.setup.replicas = map[string]any{"copyLabels": []string{}}
	w.must(w.write(w.setup))
	busy := w.flip(s, enoughFlips(), done)
	w.wait(done, "every bulk replica is rewritten")
	w.compare("every replica is rewritten", busy, idle, 4)
	w.figure("rewriting: %.0f replicas a second", rate())
	w.settled()
	w.once(bulkWrites(w.writes()[before:]), 3**services)
}

// compareAll makes tributary compare every replica repeatedly, by a setting that concerns
// them all and changes none. Nothing is written, and removals are not slower.
func (w *world) compareAll(s *latency.Session, idle flips) {
	w.Helper()
	before, added := len(w.writes()), w.metric("tributary_workqueue_adds_total", "")
	done := make(chan struct{})
	rounds := 2
	if full() {
		rounds = 6
	}
	var failed error
	next := setup{clusters: w.setup.clusters, replicas: maps.Clone(w.setup.replicas)}
	go func() {
		defer close(done)
		for i := range rounds {
			next.replicas["copyAnnotations"] = []string{fmt.Sprintf("example-%d.com/*", i%2)}
			if failed = w.reload(next); failed != nil {
				return
			}
		}
	}()
	busy := w.flip(s, enoughFlips(), done)
	w.wait(done, "the configuration was read again and again")
	w.must(failed)
	w.setup = next
	looks := w.metric("tributary_workqueue_adds_total", "") - added
	if looks < float64(rounds**services) {
		w.Errorf("%.0f looks at replicas, want %d", looks, rounds**services)
	}
	w.compare("every Service is looked at again", busy, idle, 3)
	w.settled()
	n := len(bulkWrites(w.writes()[before:]))
	w.figure("%.0f looks at replicas: %d writes to them", looks, n)
	if n > 0 {
		w.Errorf("looking again wrote %d times", n)
	}
}

// settled waits until nothing of the bulk member is pending.
func (w *world) settled() {
	w.Helper()
	w.eventually(time.Minute, "nothing of the bulk member waits", w.caughtUp)
}

// once checks that no object was written twice, and no write refused.
func (w *world) once(writes []cluster.Write, want int) {
	w.Helper()
	objects := map[string]int{}
	for _, one := range writes {
		id := strings.Join([]string{one.Resource, one.Namespace, one.Name}, " ")
		if objects[id]++; objects[id] > 1 || one.Code >= 400 {
			w.Errorf("%s: written %d times, code %d", id, objects[id], one.Code)
			return
		}
	}
	if len(objects) != want {
		w.Errorf("%d objects were written, want %d", len(objects), want)
	}
}
