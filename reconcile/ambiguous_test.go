// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// hang makes the next n writes that match hang until the client gives up; with do
// the server carries them out first.
func (g *ground) hang(n int32, do bool, match func(apitest.Request) bool) (hung *atomic.Int32) {
	hung = &atomic.Int32{}
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		isWrite := r.Verb == "create" || r.Verb == "update" || r.Verb == "delete"
		if !isWrite || r.UserAgent != product || !match(r) || hung.Add(1) > n {
			return nil
		}
		return &apitest.Fault{Hang: true, Do: do}
	})
	return hung
}

func TestTimeOutIsResolvedByReading(t *testing.T) {
	for _, do := range []bool{false, true} {
		name := map[bool]string{false: "not done", true: "done"}[do]
		t.Run(name, func(t *testing.T) {
			g := newGround(t, "a")
			g.options.RequestTimeout = 300 * time.Millisecond // a busy machine may take its time
			g.start()
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
			g.settle()
			g.writes()
			g.server.FreezeWatches("endpoints") // the read must tell
			hung := g.hang(1, do, of("endpoints"))
			g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
			g.settle()
			g.expect(web, "10.0.0.2")
			want := map[bool]int32{false: 3, true: 1}[do] // what takes away goes by itself then
			if n := hung.Load(); n != want {
				t.Errorf("%d writes of Endpoints, want %d", n, want)
			}
			g.server.ThawWatches("endpoints")
			g.rec.Resync("", "resync")
			g.settle()
			g.writes()
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
		})
	}
}

// While one key's write hangs, others are written, removals of them too.
func TestHangingWriteHoldsOnlyItsKey(t *testing.T) {
	g := newGround(t, "a")
	g.options.RequestTimeout = 2 * time.Second
	g.start()
	other := syncer.Key{Namespace: "shop", Name: "other"}
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.1", true), pod(other, "10.0.0.2", true))
	g.settle()
	hung := g.hang(1, false, func(r apitest.Request) bool { return r.Name == "web" && r.Resource == "endpoints" })
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.wait("the write hangs", func() bool { return hung.Load() > 0 })
	start := time.Now()
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.2", true))
	g.wait("the other key is written", func() bool { endpoints, _ := g.addresses(other); return slices.Equal(endpoints, []string{"10.0.0.2"}) })
	if took := time.Since(start); took > time.Second {
		t.Errorf("the other key took %v", took)
	}
	g.settle()
	g.expect(web, "10.0.0.2")
}

// More writes hang than there are workers: what would be answered does not wait for
// their time to run out, as long as others have stalled.
func TestHangingWritesAreRelieved(t *testing.T) {
	g := newGround(t, "a")
	g.options.RequestTimeout, g.options.Grace = 20*time.Second, time.Millisecond
	g.options.Queue.Workers = 2
	g.start()
	other := syncer.Key{Namespace: "shop", Name: "other"}
	var hanging []syncer.Key
	for i := range 3 {
		hanging = append(hanging, syncer.Key{Namespace: "shop", Name: fmt.Sprint("hangs-", i)})
	}
	for _, key := range append(hanging, other) {
		g.set("a", service(key, 1, 8080), pod(key, "10.0.0.1", true), pod(key, "10.0.0.2", true))
	}
	g.settle()
	g.hang(1<<20, false, func(r apitest.Request) bool { return strings.HasPrefix(r.Name, "hangs") })
	for _, key := range hanging {
		g.set("a", service(key, 1, 8080), pod(key, "10.0.0.2", true))
	}
	start := time.Now()
	g.set("a", service(other, 1, 8080), pod(other, "10.0.0.2", true))
	g.wait("the other key is written", func() bool { endpoints, _ := g.addresses(other); return slices.Equal(endpoints, []string{"10.0.0.2"}) })
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("the other key took %v", took)
	}
}

// A write whose outcome is unknown is followed by somebody's edit of the object:
// the edit is seen and kept where it is not ours to decide.
func TestNoBlindOverwriteAfterAnUnknownOutcome(t *testing.T) {
	for _, fault := range []apitest.Fault{{Do: true, Cut: true}, {Cut: true}, {Do: true, Status: http.StatusGatewayTimeout}, {Status: http.StatusInternalServerError}} {
		g := running(t)
		g.server.FreezeWatches("endpoints")
		var hits atomic.Int32
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if r.UserAgent != product || r.Resource != "endpoints" {
				return nil
			}
			if r.Verb == "update" && hits.Add(1) == 1 {
				return &fault
			}
			if r.Verb == "get" && hits.Load() == 1 { // before the read is answered
				apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) {
					metav1.SetMetaDataAnnotation(&ep.ObjectMeta, "theirs", "kept")
				})
			}
			return nil
		})
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
		g.settle()
		g.expect(web, "10.0.0.2")
		if ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web"); ep.Annotations["theirs"] != "kept" {
			t.Errorf("%+v: somebody's annotation was overwritten", fault)
		}
	}
}

func TestDeletionWithUnknownOutcome(t *testing.T) {
	for _, fault := range []apitest.Fault{{Do: true, Cut: true}, {Cut: true}, {Do: true, Status: http.StatusGatewayTimeout}, {Status: http.StatusServiceUnavailable}} {
		for _, resource := range []string{"services", "endpoints", "endpointslices"} {
			g := running(t)
			g.server.FreezeWatches(resource)
			g.faultWrites(1, fault, of(resource))
			g.unset("a", web)
			g.settle()
			_, service := apitest.Get[*corev1.Service](g.server, "shop", "web")
			_, endpoints := apitest.Get[*corev1.Endpoints](g.server, "shop", "web")
			if service || endpoints || len(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")) > 0 {
				t.Errorf("%s, %+v: something is left", resource, fault)
			}
		}
	}
}

// Creation with an unknown outcome makes no second object.
func TestCreationWithUnknownOutcome(t *testing.T) {
	for _, resource := range []string{"namespaces", "services", "endpoints", "endpointslices"} {
		g := newGround(t, "a")
		g.start()
		g.faultWrites(1, apitest.Fault{Do: true, Cut: true}, of(resource))
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		g.expect(web, "10.0.0.1")
		created := 0
		for _, w := range g.writes() {
			if strings.HasPrefix(w, "create "+resource+" ") {
				created++
			}
		}
		if created != 1 || len(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")) != 1 {
			t.Errorf("%s: %d creations", resource, created)
		}
	}
}

// A storm of 429 with and without Retry-After: no key is dropped, and the server is
// given the time it asks for.
func TestThrottledKeysAreAllWritten(t *testing.T) {
	for _, after := range []int{0, 1} {
		g := newGround(t, "a")
		g.start()
		var throttled atomic.Int32
		start := time.Now()
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if r.UserAgent == product && r.Resource == "services" && r.Verb == "create" && throttled.Add(1) <= 20 {
				return &apitest.Fault{Status: http.StatusTooManyRequests, RetryAfter: after}
			}
			return nil
		})
		for i := range 20 {
			key := webKey(i)
			g.set("a", service(key, 1, 8080), pod(key, "10.0.0.1", true))
		}
		g.settle()
		for i := range 20 {
			g.expect(syncer.Key{Namespace: "shop", Name: "web-" + number3(i)}, "10.0.0.1")
		}
		if took := time.Since(start); took < time.Second {
			t.Errorf("Retry-After %d: done after %v", after, took)
		}
		if n := throttled.Load(); n != 40 {
			t.Errorf("Retry-After %d: %d creations for 20 Services that were throttled once", after, n)
		}
	}
}

// A server that answers each write with a failure of its own, and reads well, is not
// asked again and again at once.
func TestServerThatFailsIsGivenTime(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Backoff: lanes.Backoff{Base: time.Hour}}
	g.start()
	g.set("a", service(webKey(1), 1, 8080), pod(webKey(1), "10.0.0.1", true))
	g.settle()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product || r.Verb == "get" {
			return nil
		}
		return &apitest.Fault{Status: http.StatusServiceUnavailable}
	})
	g.writes()
	g.set("a", service(webKey(1), 1, 8080), pod(webKey(1), "10.0.0.2", true))
	g.wait("the attempt is over", func() bool {
		all := g.seen.all()
		return all[len(all)-1].Result == record.Failed
	})
	if w := g.writes(); len(w) > 4 {
		t.Errorf("%d writes, want two of each object:\n%s", len(w), strings.Join(w, "\n"))
	}
}
