// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
)

var pods = flag.Int("pods", 1000, "pods of five members, ten to a Service, that TestManyPods starts with")

// TestManyPods measures from start to ready, with nothing to write, where members are
// many times larger than their replicas.
func TestManyPods(t *testing.T) {
	members := []string{"m-0", "m-1", "m-2", "m-3", "m-4"}
	w := newWorldOf(t, members...)
	var s setup
	for i, site := range w.fleet.Members {
		w.crowd(site, *pods/len(members)/10)
		s.clusters = append(s.clusters, of(w.fleet.Members[i]))
	}
	w.start(s)
	w.eventually(10*time.Minute, "all replicas are made", func(context.Context) (bool, error) {
		return w.is("tributary_sync_lag_seconds", "", 0)
	})
	w.readyAgain()
}

// crowd creates a member's Services with ten pods each, all ready.
func (w *world) crowd(site *fleet.Site, services int) {
	w.Helper()
	ctx := w.Context()
	namespace := site.Name()
	w.must(site.CreateNamespaces(ctx, namespace))
	var all []metav1.Object
	var ready []*corev1.Pod
	for i := range services {
		all = append(all, fleet.NewService(namespace, bulkName(i)))
		for k := range 10 {
			ready = append(ready, fleet.NewPod(namespace, fmt.Sprintf("%s-%d", bulkName(i), k), bulkName(i)))
		}
	}
	w.must(site.Create(ctx, all...))
	w.must(site.RunPods(ctx, ready...))
}
