// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// TestLifeOfAService follows Services and pods of three members through what
// they meet on a normal day, on one fleet: each step starts where the last one
// ended.
func TestLifeOfAService(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := w.fleet.Member("idc-a"), w.fleet.Member("idc-b")
	for _, site := range w.fleet.Members {
		w.must(site.CreateNamespaces(ctx, "shop"))
	}
	w.must(a.Create(ctx, fleet.NewService("shop", "web")))
	first := w.pod(a, "shop", "web-0", "web")

	w.start()
	w.shows("shop", "web", line(a, first, "ready+serving"))
	w.keepsTheContract("shop", "web", a.Name())

	second := w.pod(a, "shop", "web-1", "web")
	w.shows("shop", "web", line(a, first, "ready+serving"), line(a, second, "ready+serving"))

	w.must(a.MarkNotReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, first, "ready+serving"), line(a, second, "off"))
	w.must(a.MarkReady(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, first, "ready+serving"), line(a, second, "ready+serving"))

	w.must(a.Terminate(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, first, "ready+serving"), line(a, second, "serving+terminating"))
	w.must(a.Remove(ctx, "shop", "web-1"))
	w.shows("shop", "web", line(a, first, "ready+serving"))

	w.stepPortsChange(a, first)
	w.stepMergeAndUnmerge(a, b, first)

	w.must(a.Client.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
	w.gone("shop", "web")
	w.must(w.proc.Stop(ctx))
}

// keepsTheContract holds the written objects against the table of the contract.
func (w *world) keepsTheContract(namespace, name, member string) {
	w.Helper()
	ctx, client := w.Context(), w.fleet.Ingress.Client
	service, err := client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	w.must(err)
	if service.Spec.ClusterIP != corev1.ClusterIPNone || service.Spec.Selector != nil || service.Labels[managedBy] != "tributary" {
		w.Errorf("service: clusterIP %q selector %v labels %v", service.Spec.ClusterIP, service.Spec.Selector, service.Labels)
	}
	endpoints, err := client.CoreV1().Endpoints(namespace).Get(ctx, name, metav1.GetOptions{})
	w.must(err)
	if endpoints.Labels[managedBy] != "tributary" || endpoints.Labels[discoveryv1.LabelSkipMirror] != "true" {
		w.Errorf("endpoints: labels %v", endpoints.Labels)
	}
	list, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	w.must(err)
	for _, slice := range list.Items {
		_, headless := slice.Labels[corev1.IsHeadlessService]
		if !strings.HasPrefix(slice.Name, name) || slice.Labels[discoveryv1.LabelManagedBy] != "tributary.dev" || slice.Labels[sourceCluster] != member || !headless {
			w.Errorf("slice %s: labels %v", slice.Name, slice.Labels)
		}
		if len(slice.OwnerReferences) != 1 || slice.OwnerReferences[0].UID != service.UID {
			w.Errorf("slice %s: owners %v, want the Service", slice.Name, slice.OwnerReferences)
		}
	}
}

// stepPortsChange adds a named port that only some pods have, and takes it away.
func (w *world) stepPortsChange(a *fleet.Site, first *corev1.Pod) {
	w.Helper()
	ctx := w.Context()
	service, err := a.Client.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
	w.must(err)
	before := slices.Clone(service.Spec.Ports)
	service.Spec.Ports = []corev1.ServicePort{namedPort("web", 80, "http"), namedPort("nowhere", 81, "no-such-port")}
	service, err = a.Client.CoreV1().Services("shop").Update(ctx, service, metav1.UpdateOptions{})
	w.must(err)
	w.shows("shop", "web", fmt.Sprintf("%s %s:8080/web ready+serving", a.Name(), first.Status.PodIP))
	fleettest.Eventually(w.T, soon, func(ctx context.Context) error {
		replica, err := w.fleet.Ingress.Client.CoreV1().Services("shop").Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(replica.Spec.Ports) != 2 {
			return fmt.Errorf("replica has ports %v, want the source's two", replica.Spec.Ports)
		}
		return nil
	})
	service.Spec.Ports = before
	_, err = a.Client.CoreV1().Services("shop").Update(ctx, service, metav1.UpdateOptions{})
	w.must(err)
	w.shows("shop", "web", line(a, first, "ready+serving"))
}

// stepMergeAndUnmerge lets a second member offer the same Service for a while.
func (w *world) stepMergeAndUnmerge(a, b *fleet.Site, first *corev1.Pod) {
	w.Helper()
	ctx := w.Context()
	w.must(b.Create(ctx, fleet.NewService("shop", "web")))
	other := w.pod(b, "shop", "web-0", "web")
	w.shows("shop", "web", line(a, first, "ready+serving"), line(b, other, "ready+serving"))
	w.must(b.MarkNotReady(ctx, "shop", "web-0"))
	w.shows("shop", "web", line(a, first, "ready+serving"), line(b, other, "off"))
	w.must(b.Client.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
	w.shows("shop", "web", line(a, first, "ready+serving"))
}
