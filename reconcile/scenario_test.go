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

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/plan"
)

// sliceName returns the name of the only slice of a cluster.
func (g *ground) sliceName(cluster string) string {
	g.t.Helper()
	var names []string
	for _, es := range apitest.List[*discoveryv1.EndpointSlice](g.server, web.Namespace) {
		if es.Labels[plan.LabelSourceCluster] == cluster {
			names = append(names, es.Name)
		}
	}
	if len(names) != 1 {
		g.t.Fatalf("slices of cluster %s: %v, want one", cluster, names)
	}
	return names[0]
}

func TestFirstReplicaIsWrittenInOrder(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expectWrites("create namespaces shop 201", "create services shop/web 201",
		"create endpointslices shop/"+g.sliceName("a")+" 201", "create endpoints shop/web 201")
	g.expect(web, "10.0.0.1")

	svc, _ := apitest.Get[*corev1.Service](g.server, "shop", "web")
	es, _ := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", g.sliceName("a"))
	if svc.Spec.ClusterIP != "None" || svc.Spec.Selector != nil || svc.Labels[plan.LabelManagedBy] != plan.ManagedBy {
		t.Errorf("Service is not ours, headless and without selector: %+v", svc)
	}
	if len(es.OwnerReferences) != 1 || es.OwnerReferences[0].UID != svc.UID {
		t.Errorf("the slice's owner references are %+v, want the Service %s", es.OwnerReferences, svc.UID)
	}
	ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web")
	if ep.Labels[plan.LabelSkipMirror] != "true" {
		t.Error("Endpoints would be mirrored")
	}
}

func TestChangeWritesBothKindsAndEchoesThem(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
	g.settle()
	g.writes()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", false))
	g.settle()
	got := g.writes()
	slices.Sort(got)
	want := []string{"update endpoints shop/web 200", "update endpointslices shop/" + g.sliceName("a") + " 200"}
	if !slices.Equal(got, want) {
		t.Errorf("writes %q, want %q", got, want)
	}
	g.expect(web, "10.0.0.1")
	g.wait("the own watch has shown every write", func() bool {
		g.seen.mu.Lock()
		defer g.seen.mu.Unlock()
		return len(g.seen.echoes) == len(g.seen.refs)
	})
	last := g.seen.all()[len(g.seen.all())-1]
	if last.Result != record.Written || !slices.Equal(last.Unreadied, []string{"10.0.0.2:8080"}) || last.Cluster != "a" {
		t.Errorf("record %+v", last)
	}
	if s := last.Stages; s.WriteEndpoints <= 0 || s.WriteSlices <= 0 || s.Total < s.WriteEndpoints {
		t.Errorf("stages %+v", s)
	}
	if g.source.commits == 0 {
		t.Error("the contributions were never committed")
	}
}

func TestNothingChangedNothingWritten(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.writes()
	t.Run("resync", func(*testing.T) {
		g.rec.Resync("a", "resync")
		g.settle()
		g.expectWrites()
	})
	t.Run("watches dropped", func(*testing.T) {
		g.server.DropWatches()
		g.rec.Resync("", "resync")
		g.settle()
		g.expectWrites()
	})
	t.Run("watches expired", func(*testing.T) {
		for _, kind := range []string{"services", "endpoints", "endpointslices"} {
			g.server.Expire(kind)
		}
		g.server.DropWatches()
		g.rec.Resync("", "resync")
		g.settle()
		g.expectWrites()
	})
	t.Run("restart", func(*testing.T) {
		g.stop()
		g.start()
		g.expectWrites()
		g.expect(web, "10.0.0.1", "10.1.0.1")
	})
	t.Run("restart with a member away", func(*testing.T) {
		g.stop()
		g.source.setSynced("b", false)
		b := g.source.given[web]["b"]
		g.source.unset("b", web)
		g.start()
		g.expectWrites()
		g.source.given[web]["b"] = b
		g.source.setSynced("b", true)
		g.rec.Resync("b", "resync")
		g.settle()
		g.expectWrites()
	})
}

func TestChangedPortsMakeTheNewSliceFirst(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.writes()
	before := g.sliceName("a")
	g.set("a", service(web, 1, 9090), pod(web, "10.0.0.1", true))
	g.settle()
	got := g.writes()
	created := slices.IndexFunc(got, func(w string) bool { return strings.HasPrefix(w, "create endpointslices") })
	deleted := slices.Index(got, "delete endpointslices shop/"+before+" 200")
	if created < 0 || deleted < created {
		t.Errorf("writes %q: want the new slice before the old one goes", got)
	}
	if g.sliceName("a") == before {
		t.Error("the ports of a slice changed")
	}
	g.expect(web, "10.0.0.1")
}

func TestSourceGoneReplicaGone(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.writes()
	g.unset("a", web)
	g.settle()
	got := g.writes()
	if n := len(got); n != 3 || got[n-1] != "delete services shop/web 200" {
		t.Errorf("writes %q, want three deletions with the Service last", got)
	}
	g.expect(web)
	if g.rec.Owned() != 0 {
		t.Errorf("%d replicas are left", g.rec.Owned())
	}
}

func TestOrphansOfAnEarlierLifeGoOnceMembersAreSeen(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.stop()
	g.writes()
	g.source.unset("a", web)
	g.source.unset("b", web)
	g.source.setSynced("b", false)
	g.start()
	g.expect(web, "10.1.0.1") // b may still want its share
	g.writes()
	g.source.setSynced("b", true)
	g.rec.Resync("b", "resync")
	g.settle()
	g.expect(web)
	if got := g.writes(); len(got) == 0 || got[len(got)-1] != "delete services shop/web 200" {
		t.Errorf("writes %q", got)
	}
}

func TestForeignObjectIsLeftAlone(t *testing.T) {
	g := newGround(t, "a")
	foreign := &corev1.Service{}
	foreign.Namespace, foreign.Name = web.Namespace, web.Name
	foreign.Spec.Selector = map[string]string{"app": "theirs"}
	foreign.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	g.server.Create(t, foreign)
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expectWrites()
	g.wait("it is on record", func() bool { return len(g.seen.all()) > 0 })
	conflicts := g.seen.trouble(web).Conflicts
	if len(conflicts) != 1 || conflicts[0].Reason != string(plan.ConflictForeign) {
		t.Errorf("conflicts %+v, want a foreign object", conflicts)
	}
	records := g.seen.all()
	if last := records[len(records)-1]; last.Result != record.Held || !strings.HasPrefix(last.Error, "conflict: foreign_object: ") {
		t.Errorf("the record says %s %q, not why nothing was written", last.Result, last.Error)
	}
	// Its name becomes free.
	apitest.Remove[*corev1.Service](t, g.server, web.Namespace, web.Name)
	g.wait("the replica is written", func() bool { _, sliced := g.addresses(web); return len(sliced) == 1 })
	g.settle()
	if c := g.seen.trouble(web).Conflicts; len(c) != 0 {
		t.Errorf("the conflict is still reported: %+v", c)
	}
}

func TestOldIngressClusterWithoutStreamedLists(t *testing.T) {
	g := newGround(t, "a")
	g.server.WithoutStreamedLists()
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expect(web, "10.0.0.1")
	if err := g.rec.Trouble(); err != nil {
		t.Errorf("a refused stream counts as trouble: %v", err)
	}
}

func TestIngressClusterWithoutSlices(t *testing.T) {
	g := newGround(t, "a", "b")
	g.server.WithoutSlices()
	g.options.NoSlices, g.source.settings.WriteSlices = true, false
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	if got, _ := g.addresses(web); len(got) != 2 {
		t.Errorf("Endpoints %v", got)
	}
	// A restart while b is away keeps b's addresses, though no slice says whose they are.
	g.writes()
	g.stop()
	g.source.setSynced("b", false)
	g.source.unset("b", web)
	g.start()
	g.expectWrites()
}

func TestRemovedClusterKeepsItsEndpointsUnlessTold(t *testing.T) {
	g := newGround(t, "a", "b")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.writes()
	g.source.mu.Lock()
	g.source.states = g.source.states[:1]
	delete(g.source.given[web], "b")
	g.source.mu.Unlock()
	g.rec.Resync("b", "config")
	g.settle()
	g.expectWrites()
	settings := g.source.settings
	settings.DeleteRemoved = true
	g.source.setSettings(settings)
	g.rec.Resync("", "config")
	g.settle()
	g.expect(web, "10.0.0.1")
}

func TestHandWrittenEndpointsThatAreStillToBeReadAreKept(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.writes()
	g.source.unset("a", web)
	g.source.unseen[web] = []string{"a"}
	g.rec.Resync("a", "resync")
	g.settle()
	g.expectWrites()
	g.expect(web, "10.0.0.1")
}
