// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// A removal that is told while the Service of its replica is being written waits for
// neither the answer nor a slot; the Service is written after it.
func TestRemovalDoesNotWaitForAServiceThatIsBeingWritten(t *testing.T) {
	for _, resource := range []string{"services", "endpointslices"} {
		t.Run(resource, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
			g.settle()
			entered, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				if r.UserAgent == product && r.Resource == resource && (r.Verb == "create" || r.Verb == "update" && resource == "services") {
					once.Do(func() { close(entered) })
					<-release
				}
				return nil
			})
			end := sync.OnceFunc(func() { close(release) })
			t.Cleanup(end)
			changed := service(web, 1, 8080)
			changed.Labels = map[string]string{"team": "blue"}
			if resource == "endpointslices" {
				g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
			}
			g.set("a", changed, pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
			<-entered
			g.source.set("a", changed, pod(web, "10.0.0.2", true))
			removal := liveCause("a", web)
			removal.UID = "removal"
			g.rec.Dirty(web, lanes.Removal, removal)
			g.wait("the address is gone", func() bool {
				endpoints, sliced := g.addresses(web)
				return !slices.Contains(endpoints, "10.0.0.1") && !slices.Contains(sliced, "10.0.0.1")
			})
			g.server.Intercept(nil)
			end()
			g.settle()
			g.seen.mu.Lock()
			defer g.seen.mu.Unlock()
			for _, rec := range g.seen.records {
				caused := rec.Cause.UID == "removal" || slices.ContainsFunc(rec.Causes, func(c record.Cause) bool { return c.UID == "removal" })
				if removed := slices.ContainsFunc(rec.Removed, func(at string) bool { return strings.HasPrefix(at, "10.0.0.1:") }); removed != caused {
					t.Errorf("removed %v, causes %v and %v", rec.Removed, rec.Cause, rec.Causes)
				}
			}
		})
	}
}

// Removals without end do not keep the rest from being written.
func TestRemovalsInterruptOnlySoOften(t *testing.T) {
	g := newGround(t, "a")
	g.start()
	var pods []*syncer.Pod
	for _, ip := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8"} {
		pods = append(pods, pod(web, ip, true))
	}
	g.set("a", service(web, 1, 8080), pods...)
	g.settle()
	changed := service(web, 1, 8080)
	changed.Labels = map[string]string{"team": "blue"}
	var mu sync.Mutex
	interrupts := 0
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent == product && r.Resource == "services" && r.Verb == "update" {
			mu.Lock()
			defer mu.Unlock()
			if interrupts++; interrupts < len(pods) {
				g.source.set("a", changed, pods[interrupts:]...)
				g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
			}
		}
		return nil
	})
	g.set("a", changed, pods...)
	g.settle()
	mu.Lock()
	defer mu.Unlock()
	if interrupts > 2*maxInterrupts+2 {
		t.Errorf("the Service was begun %d times", interrupts)
	}
	if endpoints, _ := g.addresses(web); len(endpoints) != len(pods)-min(interrupts, len(pods)-1) {
		t.Errorf("%d interrupts, Endpoints %v", interrupts, endpoints)
	}
}

// While the write of a Service is not answered, pods come: they do not wait for it, and it is
// tried again until it is taken.
func TestPodsDoNotWaitForTheirService(t *testing.T) {
	for _, change := range []func(*syncer.Service){
		func(svc *syncer.Service) { svc.Labels = map[string]string{"x": "y"} },
		func(svc *syncer.Service) { svc.Ports[0].Port = 81 },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroundOn(t, apitest.NewInMemory(t), "a")
			g.options.Queue.Backoff = lanes.Backoff{}
			g.start()
			g.set("a", service(web, 1, 8080), podsOf(addressesOf(2))...)
			g.settle()
			g.faultWrites(1<<30, apitest.Fault{Hang: true}, of("services"))
			svc := service(web, 1, 8080)
			change(svc)
			g.set("a", svc, podsOf(addressesOf(2))...)
			for i := 3; i < 40; i++ { // over several time-outs
				time.Sleep(servicePods)
				g.set("a", svc, podsOf(addressesOf(i))...)
				time.Sleep(servicePods)
				if endpoints, sliced := g.addresses(web); len(endpoints) != i || len(sliced) != i {
					t.Fatalf("%d pods, and %v stands in Endpoints, %v in slices", i, endpoints, sliced)
				}
			}
			asked := 0
			for _, w := range g.writes() {
				if strings.HasPrefix(w, "update services") {
					asked++
				}
			}
			if asked > 15 {
				t.Errorf("the Service was sent %d times", asked)
			}
			if c := g.seen.trouble(web).Conflicts; len(c) != 1 || c[0].Reason != string(plan.ConflictFailing) {
				t.Errorf("conflicts %+v", c)
			}
			g.server.Intercept(nil)
			time.Sleep(2 * time.Minute)
			g.settle()
			if stands, ok := apitest.Get[*corev1.Service](g.server, web.Namespace, web.Name); !ok || stands.Labels["x"] != svc.Labels["x"] || stands.Spec.Ports[0].Port != svc.Ports[0].Port {
				t.Errorf("the Service is %+v", stands)
			}
		})
	}
}

// servicePods is more than a pod may wait for its Service.
const servicePods = 1500 * time.Millisecond
