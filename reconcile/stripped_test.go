// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/plan"
)

// A Service that lost our label is never written again, and nothing new is made
// under it; but what dies leaves the objects that still are ours.
func TestOursThatLostItsLabelIsLeftAlone(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true), pod(web, "10.0.0.3", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.writes()
	owner := g.ownerOf("a")
	apitest.Edit(t, g.server, web.Namespace, web.Name, func(svc *corev1.Service) { delete(svc.Labels, plan.LabelManagedBy) })
	g.wait("the conflict is reported", func() bool { return len(g.seen.trouble(web).Conflicts) == 1 })
	g.settle()
	g.expectWrites()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true), pod(web, "10.0.0.3", false), pod(web, "10.0.0.4", true))
	g.settle()
	g.expect(web, "10.0.0.2", "10.1.0.1")
	for _, w := range g.writes() {
		if !strings.HasPrefix(w, "update endpoints") {
			t.Errorf("wrote %s", w)
		}
	}
	if g.ownerOf("a") != owner {
		t.Error("the slice was given to the foreign Service")
	}
	// The Service is gone from the members: ours goes, theirs stays.
	g.unset("a", web)
	g.unset("b", web)
	g.settle()
	g.expect(web)
	if _, stands := apitest.Get[*corev1.Service](g.server, "shop", "web"); !stands || len(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")) > 0 {
		t.Errorf("the foreign Service stands: %v", stands)
	}
	// The label comes back: the replica is whole again.
	apitest.Edit(t, g.server, web.Namespace, web.Name, func(svc *corev1.Service) { svc.Labels[plan.LabelManagedBy] = plan.ManagedBy })
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.4", true))
	g.wait("the replica is whole", func() bool { _, sliced := g.addresses(web); return slices.Equal(sliced, []string{"10.0.0.4"}) })
	g.settle()
	g.expect(web, "10.0.0.4")
	if c := g.seen.trouble(web).Conflicts; len(c) != 0 {
		t.Errorf("the conflict is still reported: %+v", c)
	}
}

func (g *ground) ownerOf(cluster string) string {
	g.t.Helper()
	es, _ := apitest.Get[*discoveryv1.EndpointSlice](g.server, web.Namespace, g.sliceName(cluster))
	if len(es.OwnerReferences) != 1 {
		g.t.Fatalf("owner references %+v", es.OwnerReferences)
	}
	return string(es.OwnerReferences[0].UID)
}

// Endpoints or a slice that lost our label are left alone; what of the replica is
// ours is kept up.
func TestStrippedPartsAreLeftAlone(t *testing.T) {
	g := running(t)
	apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) { delete(ep.Labels, plan.LabelManagedBy) })
	g.wait("the conflict is reported", func() bool { return len(g.seen.trouble(web).Conflicts) == 1 })
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	endpoints, sliced := g.addresses(web)
	if !slices.Equal(endpoints, []string{"10.0.0.1"}) || !slices.Equal(sliced, []string{"10.0.0.2"}) {
		t.Errorf("Endpoints %v, slices %v", endpoints, sliced)
	}
	stripped := g.sliceName("a")
	apitest.Edit(t, g.server, "shop", stripped, func(es *discoveryv1.EndpointSlice) { delete(es.Labels, plan.LabelSliceManagedBy) })
	g.wait("the endpoints have another slice", func() bool { _, sliced := g.addresses(web); return len(sliced) == 2 })
	g.wait("the slice is reported", func() bool { return g.reportsForeign(stripped) })
	g.writes()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.3", true))
	g.settle()
	for _, w := range g.writes() {
		if strings.Contains(w, " endpoints ") || strings.Contains(w, "/"+stripped+" ") {
			t.Errorf("wrote to an object that is not ours: %s", w)
		}
	}
}

func (g *ground) reportsForeign(name string) bool {
	return slices.ContainsFunc(g.seen.trouble(web).Conflicts, func(c metrics.Conflict) bool {
		return c.Reason == string(plan.ConflictForeign) && strings.HasPrefix(c.Message, "EndpointSlice shop/"+name+" ")
	})
}

// Whoever looks for the replica's endpoints finds those of a foreign slice, too: it is
// reported as long as it has any, be it that it lost our label, and never touched.
func TestForeignSlicesOfAReplicaAreReported(t *testing.T) {
	g := running(t)
	g.writes()
	foreign := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: "web-theirs", Labels: map[string]string{plan.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	serving := func(addresses ...string) {
		apitest.Edit(t, g.server, "shop", foreign.Name, func(es *discoveryv1.EndpointSlice) {
			es.Endpoints = nil
			for _, a := range addresses {
				es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
			}
		})
	}
	g.server.Create(t, foreign)
	serving("10.9.0.1")
	g.wait("it is reported", func() bool { return g.reportsForeign(foreign.Name) })
	serving()
	g.wait("it is mended", func() bool { return len(g.seen.trouble(web).Conflicts) == 0 })
	serving("10.9.0.1")
	g.wait("it is reported again", func() bool { return g.reportsForeign(foreign.Name) })
	// The mirroring controller follows Endpoints by itself.
	apitest.Edit(t, g.server, "shop", foreign.Name, func(es *discoveryv1.EndpointSlice) { es.Labels[plan.LabelSliceManagedBy] = plan.SliceMirrored })
	g.wait("a mirrored slice is nothing to report", func() bool { return len(g.seen.trouble(web).Conflicts) == 0 })
	apitest.Edit(t, g.server, "shop", foreign.Name, func(es *discoveryv1.EndpointSlice) { delete(es.Labels, plan.LabelSliceManagedBy) })
	g.wait("it is reported once more", func() bool { return g.reportsForeign(foreign.Name) })
	apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, "shop", foreign.Name)
	g.wait("it is gone", func() bool { return len(g.seen.trouble(web).Conflicts) == 0 })
	g.expectWrites()
}
