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

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

// TestR17EditedByHand deletes and edits what tributary wrote. Each is put back at
// once; somebody who does not stop is not fought at full speed.
func TestR17EditedByHand(t *testing.T) {
	w := newWorld(t, "r17")
	edits := []struct {
		name string
		edit func(service string)
	}{
		{"endpoints-emptied", func(s string) { w.editEndpoints(s, func(e *corev1.Endpoints) { e.Subsets = nil }) }},
		{"address-added", func(s string) {
			w.editEndpoints(s, func(e *corev1.Endpoints) {
				e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "203.0.113.7"})
			})
		}},
		{"endpoints-deleted", func(s string) { w.deleteByHand(history.Endpoints, s) }},
		{"slice-edited", func(s string) { w.editSlice(s, func(e *discoveryv1.EndpointSlice) { e.Endpoints = e.Endpoints[:1] }) }},
		{"slice-deleted", func(s string) { w.deleteByHand(history.EndpointSlice, w.sliceOf(s).Name) }},
		{"selector-set", func(s string) {
			w.editService(s, func(e *corev1.Service) { e.Spec.Selector = map[string]string{"app": "theirs"} })
		}},
		{"ports-edited", func(s string) { w.editService(s, func(e *corev1.Service) { e.Spec.Ports[0].Port = 81 }) }},
		{"service-deleted", func(s string) {
			w.deleteByHand(history.Service, s)
		}},
	}
	for _, e := range edits { // a replica each: repairs of one are slowed
		w.service(e.name, 3, w.a, w.b)
	}
	w.service("fought", 3, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	for _, e := range edits {
		e.edit(e.name)
		took := w.eventually(20*time.Second, w.intact(e.name))
		t.Logf("%s: put back after %s", e.name, took)
		if limit := w.within(2 * time.Second); took > limit {
			t.Errorf("%s: put back after %s, want at most 2 s", e.name, took)
		}
	}
	w.fight("fought")
	w.judge()
}

// intact returns nil when a replica is as the members want it, the Service too.
func (w *world) intact(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := w.differs(ctx); err != nil {
			return err
		}
		s, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s.Spec.Selector != nil || s.Spec.ClusterIP != corev1.ClusterIPNone || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 80 {
			return fmt.Errorf("Service: selector %v, cluster IP %q, ports %v", s.Spec.Selector, s.Spec.ClusterIP, s.Spec.Ports)
		}
		e, err := w.ingress.Client.CoreV1().Endpoints(w.ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, subset := range e.Subsets {
			for _, a := range subset.Addresses {
				if a.TargetRef == nil {
					return fmt.Errorf("an address of no pod: %s", a.IP)
				}
			}
		}
		return nil
	}
}

// fight empties the Endpoints again as soon as they are put back, for a while,
// and counts how often tributary answers.
func (w *world) fight(service string) {
	w.Helper()
	const long = 6 * time.Second
	began := time.Now()
	edits := 0
	for time.Since(began) < long {
		ctx, cancel := context.WithTimeout(w.Context(), long-time.Since(began))
		err := fleet.Eventually(ctx, long, w.counts(service, 6))
		cancel()
		if err != nil {
			break
		}
		w.editEndpoints(service, func(e *corev1.Endpoints) { e.Subsets = nil })
		edits++
	}
	writes, err := w.ingress.Writes(w.Context())
	w.must(err)
	answers := cluster.CountWrites(writes, func(x cluster.Write) bool {
		return x.User == fleet.ProductUser && x.Namespace == w.ns && x.Resource == "endpoints" && !x.Time.Before(began)
	})
	took := w.eventually(60*time.Second, w.intact(service))
	w.Logf("against %d edits in %s: %d writes, put back %s after the last", edits, long, answers, took)
	// Five at once, then with growing pauses.
	if edits < 3 || answers > 15 {
		w.Errorf("%d edits were answered by %d writes in %s, want it slowed down", edits, answers, long)
	}
}

func (w *world) editEndpoints(name string, edit func(*corev1.Endpoints)) {
	w.Helper()
	client := w.ingress.Client.CoreV1().Endpoints(w.ns)
	w.edit(history.Endpoints, func(ctx context.Context) (metav1.Object, error) {
		e, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		edit(e)
		return client.Update(ctx, e, metav1.UpdateOptions{})
	})
}

func (w *world) editService(name string, edit func(*corev1.Service)) {
	w.Helper()
	client := w.ingress.Client.CoreV1().Services(w.ns)
	w.edit(history.Service, func(ctx context.Context) (metav1.Object, error) {
		s, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		edit(s)
		return client.Update(ctx, s, metav1.UpdateOptions{})
	})
}

func (w *world) editSlice(service string, edit func(*discoveryv1.EndpointSlice)) {
	w.Helper()
	w.edit(history.EndpointSlice, func(ctx context.Context) (metav1.Object, error) {
		s := w.sliceOf(service)
		edit(s)
		return w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Update(ctx, s, metav1.UpdateOptions{})
	})
}

// edit makes a change by hand, again if somebody else was faster.
func (w *world) edit(kind history.Kind, change func(context.Context) (metav1.Object, error)) {
	w.Helper()
	w.eventually(10*time.Second, func(ctx context.Context) error {
		made, err := change(ctx)
		if err == nil {
			w.rec.Hand(kind, made)
		}
		return err
	})
}

// sliceOf returns a slice of a replica that has endpoints.
func (w *world) sliceOf(service string) *discoveryv1.EndpointSlice {
	w.Helper()
	list, err := w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).List(w.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	w.must(err)
	for i := range list.Items {
		if len(list.Items[i].Endpoints) > 0 {
			return &list.Items[i]
		}
	}
	w.Fatalf("%s has no slice with endpoints", service)
	return nil
}

func (w *world) deleteByHand(kind history.Kind, name string) {
	w.Helper()
	w.rec.HandDeletes(kind, w.ns, name)
	if kind == history.Service {
		w.rec.HandDeletes(history.Endpoints, w.ns, name) // the API server does that, be the Service ours or not
	}
	ctx, core := w.Context(), w.ingress.Client.CoreV1()
	var err error
	switch kind {
	case history.Service:
		err = core.Services(w.ns).Delete(ctx, name, metav1.DeleteOptions{})
	case history.Endpoints:
		err = core.Endpoints(w.ns).Delete(ctx, name, metav1.DeleteOptions{})
	default:
		err = w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Delete(ctx, name, metav1.DeleteOptions{})
	}
	w.must(err)
}

// TestR17IngressRestored puts the ingress cluster's store back to an older state.
// That its watches say nothing is noticed, and everything put right again.
func TestR17IngressRestored(t *testing.T) {
	w := newWorld(t, "r17b")
	ctx := t.Context()
	w.service("web", 3, w.a, w.b)
	w.service("goes", 2, w.a)
	w.start()
	w.converges(10 * time.Second)
	before, err := w.ingress.Snapshot(ctx)
	w.must(err)
	w.must(w.a.Client.CoreV1().Services(w.ns).Delete(ctx, "goes", metav1.DeleteOptions{}))
	w.service("comes", 2, w.b)
	w.must(w.a.Remove(ctx, w.ns, "web-0", "web-1"))
	w.pods(w.b, "web", 100, 20)
	w.converges(10 * time.Second)
	w.advance(w.ingress)
	w.must(w.rec.CatchUp(ctx))
	w.pause(11 * time.Second) // for a store is known to have gone back by how far it was some seconds before

	down := w.rec.Begin(history.IngressDown, "")
	w.must(w.ingress.Restore(ctx, before))
	took := w.converges(40 * time.Second)
	w.must(w.rec.Reset(ctx, w.ingress.Name()))
	down.End()
	t.Logf("put right %s after the store was put back", took)
	w.pods(w.a, "web", 200, 1)
	w.converges(5 * time.Second)
	w.judge()
}
