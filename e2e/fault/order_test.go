// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
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

// TestRemovalsGoBeforeEdits has many Services written anew at once, for other labels and for a
// port more, which take nothing away. A pod that turns not ready meanwhile waits for none
// of them.
func TestRemovalsGoBeforeEdits(t *testing.T) {
	w := newWorld(t, "order")
	ctx := t.Context()
	n := size(200, 1000)
	pods := w.service("web", 6, w.a)
	for i := range n {
		svc := fleet.NewService(w.ns, fmt.Sprintf("edited-%d", i))
		svc.Labels = map[string]string{"team": "blue", "tier": "front"}
		w.must(w.a.Create(ctx, svc))
	}
	w.pods(w.a, "edited-0", 0, 3)
	w.config.replicas = map[string]any{"copyLabels": []string{"team"}}
	w.laws.Bound = w.within(30 * time.Second)
	w.start()
	w.converges(20 * time.Second)
	w.settled()

	began := time.Now()
	w.config.replicas = map[string]any{"copyLabels": []string{"*"}} // all of them at once
	w.must(w.config.write())
	w.eventually(20*time.Second, func(context.Context) error {
		if w.labelled(began) == 0 {
			return fmt.Errorf("no Service is written yet")
		}
		return nil
	})
	removed := time.Now()
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-0"))
	took := w.eventually(time.Second, w.lacks("web", pods[0].Status.PodIP))
	before, between := w.labelled(began), 0
	w.settled()
	between = w.before("web", removed)
	t.Logf("gone after %s, when %d of %d Services were written, %d of them since", took, before, n, between)
	if between > 150 {
		t.Errorf("%d other writes came before the removal", between)
	}

	w.editAll(n, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81, Protocol: corev1.ProtocolTCP})
	})
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-1"))
	t.Logf("while ports are edited: gone after %s", w.eventually(time.Second, w.lacks("web", pods[1].Status.PodIP)))
	w.converges(20 * time.Second)
	w.judge()
}

// labelled counts the Services that were updated since a moment.
func (w *world) labelled(since time.Time) int {
	w.Helper()
	return len(w.writesSince(since, func(x cluster.Write) bool { return x.Resource == "services" && x.Verb == "update" }))
}

// before counts the writes since a moment until that of a replica's Endpoints.
func (w *world) before(replica string, since time.Time) int {
	w.Helper()
	all := w.writesSince(since, func(cluster.Write) bool { return true })
	return slices.IndexFunc(all, func(x cluster.Write) bool { return x.Resource == "endpoints" && x.Name == replica })
}

// writesSince are tributary's writes in the ingress cluster since a moment, in order.
func (w *world) writesSince(since time.Time, choose func(cluster.Write) bool) []cluster.Write {
	w.Helper()
	all, err := w.ingress.Writes(w.Context())
	w.must(err)
	all = slices.DeleteFunc(all, func(x cluster.Write) bool {
		return x.User != w.user || x.Namespace != w.ns || x.Time.Before(since) || !choose(x)
	})
	slices.SortStableFunc(all, func(a, b cluster.Write) int { return a.Time.Compare(b.Time) })
	return all
}
