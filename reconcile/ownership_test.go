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
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// conflict waits until a replica is reported with a reason.
func (g *ground) conflict(key syncer.Key, reason plan.ConflictReason) {
	g.t.Helper()
	g.wait(key.String()+" is reported as "+string(reason), func() bool {
		for _, c := range g.seen.trouble(key).Conflicts {
			if c.Reason == string(reason) {
				return true
			}
		}
		return false
	})
}

// What carries our mark, and perhaps our instance, is not ours for that: it is
// reported, wanted or not, and never touched.
func TestMarksAloneMakeNothingOurs(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"mark":              {plan.LabelManagedBy: plan.ManagedBy},
		"mark and instance": {plan.LabelManagedBy: plan.ManagedBy, plan.LabelInstance: "default"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGround(t, "a")
			db := syncer.Key{Namespace: "shop", Name: "db"}
			for _, key := range []syncer.Key{web, db} {
				meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: labels}
				g.server.Create(t, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: "172.16.0.1", Ports: []corev1.ServicePort{{Port: 80}}}})
				g.server.Create(t, &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.9.9.9"}}}}})
			}
			g.start()
			g.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
			g.conflict(web, plan.ConflictRecord)
			g.conflict(db, plan.ConflictRecord) // nobody wants it
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
			// The name is free: the replica comes, and the report goes.
			apitest.Remove[*corev1.Endpoints](t, g.server, web.Namespace, web.Name)
			apitest.Remove[*corev1.Service](t, g.server, web.Namespace, web.Name)
			g.wait("the replica stands", func() bool { ep, sliced := g.addresses(web); return len(ep) == 1 && len(sliced) == 1 })
			g.settle()
			g.expect(web, "10.0.0.1")
			if c := g.seen.trouble(web).Conflicts; len(c) > 0 {
				t.Errorf("still reported: %+v", c)
			}
		})
	}
}

// A slice of a cluster that is not on record changes nothing of the replica, through a
// restart while its members are away as well.
func TestForgedSliceOfAnUnknownCluster(t *testing.T) {
	g := newGround(t, "a")
	g.set0("a", service(web, 1700000000, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
	g.start()
	g.expect(web, "10.0.0.1", "10.0.0.2")
	forge := func(name string, labels map[string]string) {
		t.Helper()
		labels = map[string]string{
			plan.LabelServiceName: "web", plan.LabelSliceManagedBy: plan.SliceManagedBy, plan.LabelManagedBy: plan.ManagedBy,
			plan.LabelSourceCluster: "ghost", plan.LabelInstance: labels[plan.LabelInstance],
		}
		if labels[plan.LabelInstance] == "" {
			delete(labels, plan.LabelInstance)
		}
		g.server.Create(t, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		})
	}
	forge("web-forged", nil)
	forge("web-forged-too", map[string]string{plan.LabelInstance: "default"})
	forgedAlone := func(es *discoveryv1.EndpointSlice) bool { return strings.HasPrefix(es.Name, "web-forged") }
	stands := func(when string) {
		t.Helper()
		g.settle()
		ep, _ := g.addresses(web)
		if !slices.Equal(ep, []string{"10.0.0.1", "10.0.0.2"}) {
			t.Errorf("%s: Endpoints %v", when, ep)
		}
		if n := len(slices.DeleteFunc(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop"), func(es *discoveryv1.EndpointSlice) bool { return !forgedAlone(es) })); n != 2 {
			t.Errorf("%s: %d forged slices stand", when, n)
		}
		g.expectWrites()
	}
	g.conflict(web, plan.ConflictRecord)
	g.writes()
	stands("while it runs")
	g.stop()
	g.source.setSynced("a", false)
	g.source.unset("a", web)
	g.start()
	g.rec.Resync("", "resync")
	stands("after a restart with the member away")
}

// set0 gives a share before the reconciler runs.
func (g *ground) set0(cluster string, svc *syncer.Service, pods ...*syncer.Pod) {
	g.source.set(cluster, svc, pods...)
}

// Two installations on one ingress cluster: the second that wants a name reports a
// conflict and writes nothing, and gets the name when it is free.
func TestTwoInstallations(t *testing.T) {
	server := apitest.New(t)
	blue, green := newGroundOn(t, server, "a"), newGroundOn(t, server, "b")
	blue.options.Writer, green.options.Writer = server.Client(t, "tributary/blue"), server.Client(t, "tributary/green")
	blue.source.settings.Instance, green.source.settings.Instance = "blue", "green"
	only := syncer.Key{Namespace: "shop", Name: "only"}
	blue.start()
	green.start()
	blue.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	blue.wait("blue has it", func() bool { _, sliced := blue.addresses(web); return slices.Equal(sliced, []string{"10.0.0.1"}) })
	green.set("b", service(web, 5, 8080), pod(web, "10.8.0.1", true)) // older
	green.set("b", service(only, 5, 8080), pod(only, "10.8.0.2", true))
	green.conflict(web, plan.ConflictInstance)
	green.settle()
	green.expect(only, "10.8.0.2")
	blue.settle()
	if c := blue.seen.trouble(only).Conflicts; len(c) > 0 {
		t.Errorf("what is another's and not wanted is reported: %+v", c)
	}
	server.ForgetWrites()
	for range 3 {
		blue.rec.Resync("", "resync")
		green.rec.Resync("", "resync")
		blue.settle()
		green.settle()
	}
	if n := len(server.Writes("tributary/blue")) + len(server.Writes("tributary/green")); n > 0 {
		t.Errorf("they wrote %d times", n)
	}
	blue.expect(web, "10.0.0.1")
	// The first lets go of the name: the second has it, and none of the first's.
	blue.unset("a", web)
	green.wait("green has it", func() bool {
		ep, sliced := green.addresses(web)
		return slices.Equal(sliced, []string{"10.8.0.1"}) && slices.Equal(ep, sliced)
	})
	green.wait("nothing is reported", func() bool { return len(green.seen.trouble(web).Conflicts) == 0 })
	green.settle()
	blue.settle()
	green.expect(web, "10.8.0.1")
}

// Nothing is written outside of the bounds, and what stands there is left, and reported.
func TestBoundsOfWriting(t *testing.T) {
	g := newGround(t, "a")
	system := syncer.Key{Namespace: "kube-system", Name: "dns"}
	g.set0("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
	g.set0("a", service(system, 10, 53), pod(system, "10.0.0.2", true))
	bounds := func(namespace string) bool { return namespace == "shop" }
	g.source.settings.MayWrite = bounds
	g.start()
	g.expect(web, "10.0.0.1")
	g.expect(system)
	if c := g.seen.trouble(system).Conflicts; len(c) > 0 {
		t.Errorf("reported although nothing stands: %+v", c)
	}
	g.writes()
	none := g.source.settings
	none.MayWrite = func(string) bool { return false }
	g.source.setSettings(none)
	g.set("a", service(web, 10, 8080), pod(web, "10.0.0.3", true))
	g.conflict(web, plan.ConflictNamespace)
	g.settle()
	g.expectWrites()
}

// A copy of a replica's sources makes a tenant's Service no replica of ours, and the mark
// beside a replica no slice of it: both are reported and stay.
func TestCopiesOfARecordAreLeftAlone(t *testing.T) {
	g := newGround(t, "a")
	g.set0("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.start()
	g.settle()
	ours, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name)
	sources := map[string]string{plan.AnnotationSources: ours.Annotations[plan.AnnotationSources]}
	g.writes()
	for name, labels := range map[string]map[string]string{"all": ours.Labels, "mark": {plan.LabelManagedBy: plan.ManagedBy}} {
		g.server.Create(t, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: name, Labels: labels, Annotations: sources},
			Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "theirs"}, Ports: []corev1.ServicePort{{Port: 80}}},
		})
		g.conflict(syncer.Key{Namespace: "tenant", Name: name}, plan.ConflictRecord)
	}
	g.server.Create(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs", Labels: map[string]string{
			plan.LabelServiceName: "web", plan.LabelSliceManagedBy: plan.SliceManagedBy, plan.LabelSourceCluster: "a",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.77"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	})
	g.conflict(web, plan.ConflictRecord)
	g.rec.Resync("", "resync")
	g.settle()
	g.expectWrites()
}

// Nor are Endpoints and a slice with our labels and nothing else ours where a replica of ours
// stands, be it that the slice names its Service as its owner.
func TestMarksBesideAReplicaAreLeftAlone(t *testing.T) {
	g := newGround(t, "a", "b")
	g.set0("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set0("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.start()
	g.settle()
	g.stop()
	ours, _ := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name)
	apitest.Remove[*corev1.Endpoints](t, g.server, web.Namespace, web.Name)
	g.server.Create(t, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{plan.LabelManagedBy: plan.ManagedBy}},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.66"}}, Ports: []corev1.EndpointPort{{Port: 8080}}}},
	})
	g.server.Create(t, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "theirs", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: ours.UID}}, Labels: map[string]string{
			plan.LabelServiceName: "web", plan.LabelSliceManagedBy: plan.SliceManagedBy, plan.LabelSourceCluster: "b",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.77"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	})
	g.writes()
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	g.conflict(web, plan.ConflictRecord)
	for _, w := range g.writes() {
		if strings.Contains(w, "endpoints shop/web") || strings.Contains(w, "theirs") {
			t.Errorf("written: %s", w)
		}
	}
	if endpoints, sliced := g.addresses(web); !slices.Equal(endpoints, []string{"10.0.0.66"}) || !slices.Equal(sliced, []string{"10.0.0.2", "10.0.0.77", "10.1.0.1"}) {
		t.Errorf("%v and %v stand", endpoints, sliced)
	}
}
