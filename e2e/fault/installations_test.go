// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/history"
)

var getNow = metav1.GetOptions{}

// TestTwoInstallations runs two installations on one ingress cluster, whose members have
// Services of one name. The first keeps it, and the second says so and writes nothing of
// it, over restarts of both; a second process of the same instance stands by, whatever
// else its file says.
func TestTwoInstallations(t *testing.T) {
	w := newWorld(t, "twain")
	ctx := t.Context()
	w.members = []*fleet.Site{w.a} // what is judged is the first's
	w.config.drop(w.b.Name())
	w.service("web", 3, w.a)
	w.service("web", 2, w.b)
	w.start()
	w.converges(10 * time.Second)

	mine := w.config
	green := w.config
	green.instance, green.members = "green", nil
	green.set(w.b.Name(), w.b.Kubeconfig)
	w.config = green
	second := w.standby()
	w.config = mine
	first := w.proc
	w.state(second, "leading", 5*time.Second)
	w.proc = second
	w.conflicts("web")
	w.proc = first
	w.pods(w.a, "web", 100, 2)
	w.pods(w.b, "web", 100, 2)
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-0"))
	w.converges(5 * time.Second)
	quiet := w.quiet()
	w.must(second.Stop(ctx))
	w.must(second.Start(ctx))
	w.must(second.WaitReady(ctx))
	w.pause(2 * time.Second)
	quiet.End()
	w.kill()
	w.restart()
	w.converges(5 * time.Second)
	w.proc = second
	w.conflicts("web")
	w.must(second.Stop(ctx))

	// The same instance, and another member: one Lease, so one writes.
	other := green
	other.instance = ""
	w.config = other
	same := w.standby()
	w.config, w.proc = mine, first
	w.state(same, "standby", 5*time.Second)
	w.pods(w.a, "web", 200, 1)
	w.converges(5 * time.Second)
	w.must(same.Stop(ctx))
	w.judge()
}

// trackers are labels by which other tools take an object for theirs.
var trackers = map[string]string{
	"app.kubernetes.io/instance": "shop", "argocd.argoproj.io/instance": "shop", "helm.sh/chart": "shop-1",
	"kustomize.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/name": "shop",
}

// TestPlantedServices: a member that is to fill every namespace has Services in kube-public
// and in Tributary's own, and one that trackers have marked. Nothing is written to those
// namespaces, and the marks are not copied.
func TestPlantedServices(t *testing.T) {
	w := newWorld(t, "planted")
	ctx := t.Context()
	barred := []string{"kube-public", "tributary-system"}
	w.must(w.a.CreateNamespaces(ctx, "tributary-system"))
	w.must(w.ingress.CreateNamespaces(ctx, "tributary-system"))
	for i := range w.config.members {
		w.config.members[i].Namespaces = namespacesConfig{Include: append([]string{w.ns}, barred...), Exclude: []string{"none"}}
	}
	marked := fleet.NewService(w.ns, "web")
	marked.Labels = maps.Clone(trackers)
	marked.Labels["team"] = "blue"
	w.must(w.a.Create(ctx, marked))
	w.pods(w.a, "web", 0, 2)
	for _, namespace := range barred {
		w.must(w.a.Create(ctx, fleet.NewService(namespace, "grafana")))
		w.Cleanup(func() {
			_ = w.a.Client.CoreV1().Services(namespace).Delete(context.Background(), "grafana", metav1.DeleteOptions{}) // the fleet may be gone
		})
	}
	w.start()
	w.converges(10 * time.Second)
	replica, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
	w.must(err)
	for label := range trackers {
		if _, copied := replica.Labels[label]; copied {
			t.Errorf("the replica has the label %s", label)
		}
	}
	if replica.Labels["team"] != "blue" {
		t.Errorf("the replica has the labels %v", replica.Labels)
	}
	for _, namespace := range barred {
		list, err := w.ingress.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
		w.must(err)
		if len(list.Items) > 0 {
			t.Errorf("%d Services in %s", len(list.Items), namespace)
		}
	}
	w.judge()
}

// TestForgedMarks: a tenant of the ingress cluster makes Services that carry the mark and
// a copied record with a made-up identity, more of them than replicas there are, and a
// slice of a cluster that nobody knows. After a restart no member is taken for another,
// the replica serves what it did, and the forged objects stand as they were made.
func TestForgedMarks(t *testing.T) {
	w := newWorld(t, "forged")
	ctx := t.Context()
	w.service("web", 2, w.a, w.b)
	w.start()
	w.converges(10 * time.Second)
	uid, err := w.a.Client.CoreV1().Namespaces().Get(ctx, "kube-system", getNow)
	w.must(err)
	model, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, "web", getNow)
	w.must(err)
	w.kill()

	forged := map[string]string{}
	for i := range 5 {
		fake := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("forged-%d", i), Labels: maps.Clone(model.Labels), Annotations: map[string]string{}}, Spec: *model.Spec.DeepCopy()}
		for key, value := range model.Annotations {
			fake.Annotations[key] = strings.ReplaceAll(strings.ReplaceAll(value, string(uid.UID), "00000000-dead-beef-0000-000000000000"), `"web"`, fmt.Sprintf("%q", fake.Name))
		}
		w.edit(history.Service, func(ctx context.Context) (metav1.Object, error) {
			made, err := w.ingress.Client.CoreV1().Services(w.ns).Create(ctx, fake, metav1.CreateOptions{})
			if err == nil {
				forged[made.Name] = made.ResourceVersion
			}
			return made, err
		})
	}
	w.edit(history.EndpointSlice, func(ctx context.Context) (metav1.Object, error) {
		return w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "web-forged", Labels: map[string]string{
				discoveryv1.LabelServiceName: "web", "app.kubernetes.io/managed-by": "tributary", "tributary.dev/instance": "default",
				discoveryv1.LabelManagedBy: "tributary.dev", "multicluster.kubernetes.io/source-cluster": "nobody"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}, metav1.CreateOptions{})
	})
	w.restart()
	w.eventually(5*time.Second, w.counts("web", 4))
	s, err := w.status(ctx)
	w.must(err)
	for _, c := range s.Clusters {
		if !c.Up || c.Reason != "" {
			t.Errorf("%s is %+v", c.Name, c)
		}
	}
	w.must(w.a.MarkNotReady(ctx, w.ns, "web-0"))
	w.eventually(2*time.Second, w.counts("web", 3))
	w.conflicts(append(slices.Collect(maps.Keys(forged)), "web")...) // its slice is one
	w.must(w.ingress.Client.DiscoveryV1().EndpointSlices(w.ns).Delete(ctx, "web-forged", metav1.DeleteOptions{}))
	for name, version := range forged {
		left, err := w.ingress.Client.CoreV1().Services(w.ns).Get(ctx, name, getNow)
		if err != nil || left.ResourceVersion != version {
			t.Errorf("%s was touched: %v", name, err)
		}
		w.deleteByHand(history.Service, name) // what nobody wants is no replica
	}
	w.judge()
}
