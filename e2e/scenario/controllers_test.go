// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// besideReplicas are the controllers of an ingress cluster that could take
// replicas for theirs.
var besideReplicas = []string{
	"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller",
	"garbage-collector-controller", "namespace-controller",
}

// TestIngressClusterWithControllers has replicas beside an ingress
// cluster's own controllers: nobody mirrors, collects or corrects them, a Service
// of the ingress cluster's own is left to its controllers, and a namespace that is
// deleted comes back whole.
func TestIngressClusterWithControllers(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	a, b := w.fleet.Member("idc-a"), w.fleet.Member("idc-b")
	for _, site := range []*fleet.Site{a, b, w.fleet.Ingress} {
		w.must(site.CreateNamespaces(ctx, "shop"))
	}
	w.must(a.Create(ctx, fleet.NewService("shop", "web"), fleet.NewService("shop", "native")))
	w.must(b.Create(ctx, fleet.NewService("shop", "web")))
	w.must(w.fleet.Ingress.Create(ctx, fleet.NewService("shop", "native")))
	own := w.pod(w.fleet.Ingress, "shop", "native-0", "native")
	first, second := w.pod(a, "shop", "web-0", "web"), w.pod(b, "shop", "web-0", "web")
	both := []string{line(a, first, "ready+serving"), line(b, second, "ready+serving")}
	w.pod(a, "shop", "native-0", "native")

	manager, err := w.fleet.Ingress.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: besideReplicas})
	w.must(err)
	w.start()
	w.shows("shop", "web", both...)
	w.showsEndpoints("shop", "native", fmt.Sprintf("%s:8080/http ready", own.Status.PodIP))

	w.must(a.MarkNotReady(ctx, "shop", "web-0"))
	w.shows("shop", "web", line(a, first, "off"), both[1])
	w.must(a.MarkReady(ctx, "shop", "web-0"))
	w.shows("shop", "web", both...)

	// A controller manager that starts anew looks at everything that exists.
	manager.Kill()
	_, err = w.fleet.Ingress.StartControllerManager(ctx, cluster.ControllerManagerOptions{Controllers: besideReplicas})
	w.must(err)
	w.must(w.fleet.Ingress.MarkNotReady(ctx, "shop", "native-0"))
	w.showsEndpoints("shop", "native", fmt.Sprintf("%s:8080/http notready", own.Status.PodIP))
	w.shows("shop", "web", both...)
	w.onlyTributaryWrites("shop", "web")

	w.must(w.fleet.Ingress.Remove(ctx, "shop", "native-0")) // there is no kubelet that would end it
	w.stepNamespaceGoes("shop", "web", both...)
	w.must(a.Client.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
	w.must(b.Client.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}))
	w.gone("shop", "web")
	w.must(w.proc.Stop(ctx))
}

// onlyTributaryWrites holds the API server's record against the claim that a
// replica is of no interest to the cluster's controllers.
func (w *world) onlyTributaryWrites(namespace, name string) {
	w.Helper()
	writes, err := w.fleet.Ingress.Writes(w.Context())
	w.must(err)
	service, err := w.fleet.Ingress.Client.CoreV1().Services(namespace).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	objects := []string{"services/" + name, "endpoints/" + name}
	list, err := w.fleet.Ingress.Client.DiscoveryV1().EndpointSlices(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, slice := range list.Items {
		if metav1.IsControlledBy(&slice, service) || slice.Labels[managedBy] == "tributary" {
			objects = append(objects, "endpointslices/"+slice.Name)
		}
	}
	for _, write := range writes {
		if write.User != fleet.ProductUser && write.Namespace == namespace && slices.Contains(objects, write.Resource+"/"+write.Name) {
			w.Errorf("%s: %s of %s/%s", write.User, write.Verb, write.Resource, write.Name)
		}
	}
}

// stepNamespaceGoes deletes the namespace of a replica. While it is terminating
// nothing can be created in it; when it is gone all comes back.
func (w *world) stepNamespaceGoes(namespace, name string, want ...string) {
	w.Helper()
	namespaces := w.fleet.Ingress.Client.CoreV1().Namespaces()
	before, err := namespaces.Get(w.Context(), namespace, metav1.GetOptions{})
	w.must(err)
	w.must(namespaces.Delete(w.Context(), namespace, metav1.DeleteOptions{}))
	fleettest.Eventually(w.T, time.Minute, func(ctx context.Context) error {
		now, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || (err == nil && now.UID == before.UID) {
			return fmt.Errorf("the namespace has not come back (%v)", err)
		}
		return err
	})
	w.shows(namespace, name, want...)
}
