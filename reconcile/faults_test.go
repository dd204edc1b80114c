// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// running returns a ground on which web has one endpoint of cluster a.
func running(t *testing.T) *ground {
	t.Helper()
	g := newGround(t, "a")
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expect(web, "10.0.0.1")
	g.writes()
	return g
}

// faultWrites lets a fault happen to the next n writes of the product that match.
func (g *ground) faultWrites(n int32, fault apitest.Fault, match func(apitest.Request) bool) {
	var left atomic.Int32
	left.Store(n)
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		isWrite := r.Verb == "create" || r.Verb == "update" || r.Verb == "delete"
		if !isWrite || r.UserAgent != product || match != nil && !match(r) || left.Add(-1) < 0 {
			return nil
		}
		return &fault
	})
}

func of(resource string) func(apitest.Request) bool {
	return func(r apitest.Request) bool { return r.Resource == resource }
}

func TestConflictIsSettledByLookingAgain(t *testing.T) {
	g := running(t)
	g.server.FreezeWatches("endpoints") // the read must tell, not the watch
	apitest.Edit(t, g.server, web.Namespace, web.Name, func(ep *corev1.Endpoints) {
		metav1.SetMetaDataAnnotation(&ep.ObjectMeta, "theirs", "kept")
	})
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	g.expect(web, "10.0.0.2")
	ep, _ := apitest.Get[*corev1.Endpoints](g.server, web.Namespace, web.Name)
	if ep.Annotations["theirs"] != "kept" {
		t.Error("a foreign annotation was overwritten")
	}
	got := g.writes()
	if !slices.Contains(got, "update endpoints shop/web 409") || !slices.Contains(got, "update endpoints shop/web 200") {
		t.Errorf("writes %q", got)
	}
	g.server.ThawWatches("endpoints")
	g.rec.Resync("", "resync")
	g.settle()
	g.expectWrites()
}

func TestForeignObjectThatCameFirstIsNotOverwritten(t *testing.T) {
	g := running(t)
	other := syncer.Key{Namespace: "shop", Name: "other"}
	g.server.FreezeWatches("services")
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: other.Name}}
	foreign.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	g.server.Create(t, foreign)
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.9", true))
	g.settle()
	g.expectWrites("create services shop/other 409")
	if c := g.seen.trouble(other).Conflicts; len(c) != 1 {
		t.Errorf("conflicts %+v", c)
	}
}

func TestNoKeyIsDroppedHoweverWritesFail(t *testing.T) {
	tests := []struct {
		name  string
		fault apitest.Fault
	}{
		{"500", apitest.Fault{Status: http.StatusInternalServerError}},
		{"503", apitest.Fault{Status: http.StatusServiceUnavailable}},
		{"504 after the write", apitest.Fault{Status: http.StatusGatewayTimeout, Do: true}},
		{"422", apitest.Fault{Status: http.StatusUnprocessableEntity}},
		{"403", apitest.Fault{Status: http.StatusForbidden}},
		{"401", apitest.Fault{Status: http.StatusUnauthorized}},
		{"cut before the write", apitest.Fault{Cut: true}},
		{"cut after the write", apitest.Fault{Do: true, Cut: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := newGround(t, "a")
			g.options.RefusalPause = 10 * time.Millisecond
			g.start()
			// Not the namespace: it is asked for once for all, and waits twice as long each time.
			g.faultWrites(30, test.fault, func(r apitest.Request) bool { return r.Resource != "namespaces" })
			for i := range 5 {
				key := webKey(i)
				g.set("a", service(key, 1, 8080), pod(key, "10.0.0.1", true))
			}
			g.wait("every replica is written", func() bool {
				for i := range 5 {
					endpoints, sliced := g.addresses(syncer.Key{Namespace: "shop", Name: "web-" + number3(i)})
					if len(endpoints) != 1 || len(sliced) != 1 {
						return false
					}
				}
				return true
			})
			g.settle()
			for i := range 5 {
				g.expect(syncer.Key{Namespace: "shop", Name: "web-" + number3(i)}, "10.0.0.1")
			}
			g.writes()
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
		})
	}
}

func TestCutConnectionIsResolvedByReading(t *testing.T) {
	g := running(t)
	g.server.FreezeWatches("endpoints")
	g.faultWrites(1, apitest.Fault{Do: true, Cut: true}, of("endpoints"))
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	g.expect(web, "10.0.0.2")
	var endpoints []string
	for _, w := range g.writes() {
		if strings.Contains(w, " endpoints ") {
			endpoints = append(endpoints, w)
		}
	}
	if want := []string{"update endpoints shop/web 0"}; !slices.Equal(endpoints, want) {
		t.Errorf("writes of Endpoints %q, want %q: the read shows that it was done", endpoints, want)
	}
	if last := g.seen.all()[len(g.seen.all())-1]; last.Result != record.Written || len(last.Added) != 1 {
		t.Errorf("record %+v", last)
	}
}

func TestUpdateOfWhatIsGoneCreatesIt(t *testing.T) {
	for _, resource := range []string{"endpoints", "endpointslices"} {
		t.Run(resource, func(t *testing.T) {
			g := running(t)
			g.server.FreezeWatches(resource)
			if resource == "endpoints" {
				apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
			} else {
				apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, "shop", g.sliceName("a"))
			}
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
			g.settle()
			g.expect(web, "10.0.0.2")
			g.writes()
			g.server.ThawWatches(resource)
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
		})
	}
}

func TestRetryAfterHoldsOnlyItsKey(t *testing.T) {
	g := running(t)
	other := syncer.Key{Namespace: "shop", Name: "other"}
	g.faultWrites(1, apitest.Fault{Status: http.StatusTooManyRequests, RetryAfter: 1}, func(r apitest.Request) bool { return r.Name == "web" && r.Resource == "endpoints" })
	start := time.Now()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.wait("the first try has failed", func() bool {
		return slices.ContainsFunc(g.seen.all(), func(r record.Change) bool { return r.Result == record.Failed })
	})
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.3", true))
	g.wait("the other key is written", func() bool { _, sliced := g.addresses(other); return len(sliced) == 1 })
	if took := time.Since(start); took > time.Second {
		t.Errorf("the other key took %v", took)
	}
	g.settle()
	if took := time.Since(start); took < time.Second {
		t.Errorf("the key was tried again after %v, the server had asked for 1 s", took)
	}
	g.expect(web, "10.0.0.2")
}

func TestLateEventsDoNotBringOldStateBack(t *testing.T) {
	g := running(t)
	g.server.FreezeWatches("endpoints")
	g.server.FreezeWatches("endpointslices")
	for _, ip := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		g.set("a", service(web, 1, 8080), pod(web, ip, true))
		g.settle()
	}
	g.unset("a", web)
	g.settle()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.5", true))
	g.settle()
	g.expect(web, "10.0.0.5")
	g.writes()
	g.server.ThawWatches("endpoints")
	g.server.ThawWatches("endpointslices")
	g.wait("the watch has shown the last write", func() bool {
		return g.rec.cache.Unshown() == 0
	})
	g.settle()
	g.expect(web, "10.0.0.5")
	g.expectWrites()
}

func TestTerminatingNamespaceIsWaitedFor(t *testing.T) {
	g := running(t)
	apitest.Edit(t, g.server, "", "shop", func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceTerminating })
	other := syncer.Key{Namespace: "shop", Name: "other"}
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.3", true))
	g.settle()
	g.expect(other)
	if held := g.seen.trouble(other).Held; len(held) != 1 || held[0].Reason != string(plan.WaitNamespaceTerminating) {
		t.Errorf("held %+v", held)
	}
	slice := g.sliceName("a")
	apitest.Remove[*corev1.Service](t, g.server, "shop", "web")
	apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
	apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, "shop", slice)
	apitest.Remove[*corev1.Namespace](t, g.server, "", "shop")
	g.wait("both replicas stand again", func() bool {
		_, first := g.addresses(web)
		_, second := g.addresses(other)
		return len(first) == 1 && len(second) == 1
	})
}

func TestMissingNamespaceIsWaitedForBySetting(t *testing.T) {
	g := newGround(t, "a")
	g.source.settings.CreateNamespaces = false
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.settle()
	g.expectWrites()
	g.server.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	g.wait("the replica is written", func() bool { endpoints, _ := g.addresses(web); return len(endpoints) == 1 })
}

func TestStopLetsWritesInFlightEnd(t *testing.T) {
	g := running(t)
	release := make(chan struct{})
	entered := map[string]chan struct{}{"endpoints": make(chan struct{}), "endpointslices": make(chan struct{})}
	var endpoints, sliced sync.Once // of the two that are written side by side
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		once := map[string]*sync.Once{"endpoints": &endpoints, "endpointslices": &sliced}[r.Resource]
		if r.Verb == "update" && once != nil {
			once.Do(func() { close(entered[r.Resource]) })
			<-release
		}
		return nil
	})
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	<-entered["endpoints"]
	<-entered["endpointslices"]
	g.cancel()
	close(release)
	<-g.done
	g.expect(web, "10.0.0.2")
}

func TestStopDoesNotWaitForEver(t *testing.T) {
	g := newGround(t, "a")
	g.options.Grace = 50 * time.Millisecond
	g.start()
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent == product && r.Verb == "create" {
			once.Do(func() { close(entered) })
			<-release
		}
		return nil
	})
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	<-entered
	began := time.Now()
	g.stop()
	if took := time.Since(began); took > g.options.Grace+3*time.Second {
		t.Errorf("it ended after %v", took)
	}
	close(release)
}

func TestPlanAllWritesNothing(t *testing.T) {
	g := running(t)
	other := syncer.Key{Namespace: "shop", Name: "another"}
	g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.source.set("a", service(other, 1, 8080), pod(other, "10.0.0.3", true))
	plans, err := g.rec.PlanAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) != 2 || plans[0].Replica != other || plans[1].Replica != web {
		t.Errorf("plans %+v, want those of %s and %s", plans, other, web)
	}
	g.expectWrites()
	// What is as it should be is counted, too.
	g.rec.Dirty(other, lanes.Addition, liveCause("a", other))
	g.settle()
	if plans, err = g.rec.PlanAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := plan.Summarise(plans); s.Replicas != 2 || s.Unchanged != 1 || s.Update == 0 {
		t.Errorf("%+v, want one of two replicas unchanged", s)
	}
}

// A webhook that is down fails the writes of one Service: it is told, and no lag; what
// others lose is written, and it is whole as soon as the webhook is.
func TestServiceThatFailsAloneIsNoLag(t *testing.T) {
	g := running(t)
	odd := syncer.Key{Namespace: "shop", Name: "odd"}
	g.faultWrites(1<<30, apitest.Fault{Status: http.StatusInternalServerError}, func(r apitest.Request) bool { return r.Name == odd.Name })
	g.set("a", service(odd, 1, 8080), pod(odd, "10.0.0.9", true))
	failing := func() bool {
		return slices.ContainsFunc(g.seen.trouble(odd).Conflicts, func(c metrics.Conflict) bool { return c.Reason == string(plan.ConflictFailing) })
	}
	g.wait("it is told", failing)
	g.wait("it is no lag", func() bool { _, lag := g.rec.Queue().OldestArrivals()["a"]; return !lag })
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.wait("the other is written", func() bool { _, sliced := g.addresses(web); return slices.Equal(sliced, []string{"10.0.0.2"}) })
	g.server.Intercept(nil)
	g.wait("it is whole", func() bool {
		_, sliced := g.addresses(odd)
		return slices.Equal(sliced, []string{"10.0.0.9"}) && !failing()
	})
}
