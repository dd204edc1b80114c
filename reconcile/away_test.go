// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/reconcile/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// While the ingress cluster is away, changes wait in their lanes: a probe now
// and then, not an attempt for each; afterwards each object is written once,
// and a removal before everything that waited with it.
func TestChangesWaitWhileTheIngressClusterIsAway(t *testing.T) {
	g := newGround(t, "a")
	// A probe that counted as an attempt would put its key back for longer than all
	// others need.
	g.options.Queue = lanes.Options{Workers: 2, Backoff: lanes.Backoff{Base: time.Second}}
	g.start()
	const replicas = 40
	key := func(i int) syncer.Key { return syncer.Key{Namespace: "shop", Name: "web-" + number3(i)} }
	for i := range replicas {
		g.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true), pod(key(i), "10.0.0.2", true))
	}
	g.settle()
	g.writes()

	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product {
			return nil
		}
		return &apitest.Fault{Cut: true}
	})
	g.server.DropWatches()
	for i := range replicas {
		g.source.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true), pod(key(i), "10.0.0.3", true))
		g.rec.Dirty(key(i), lanes.Bulk, liveCause("a", key(i)))
	}
	g.wait("the gate is closed", g.rec.gate.shut)
	urgent := key(replicas - 1)
	for range 5 { // events without number make one key dirty once
		g.source.set("a", service(urgent, 1, 8080), pod(urgent, "10.0.0.1", true))
		g.rec.Dirty(urgent, lanes.Removal, liveCause("a", urgent))
	}
	probes := len(g.server.Writes(product))
	if probes > 4*gateFailures {
		t.Errorf("%d attempts before the gate closed", probes)
	}
	start := time.Now()
	g.wait("a few probes were made", func() bool { return len(g.server.Writes(product)) >= probes+6 })
	if took := time.Since(start); took < 2*gateFirst {
		t.Errorf("6 attempts within %v: the gate lets too many through", took)
	}

	g.writes()
	g.wait("the removal was a probe", func() bool {
		return slices.ContainsFunc(g.server.Writes(product), func(w apitest.Write) bool { return strings.Contains(w.String(), urgent.String()) })
	})
	g.writes()
	g.server.Intercept(nil)
	g.settle()
	for i := range replicas - 1 {
		g.expect(key(i), "10.0.0.1", "10.0.0.3")
	}
	g.expect(urgent, "10.0.0.1")
	written, position := map[string]int{}, -1
	for i, w := range g.writes() {
		fields := strings.Fields(w)
		if fields[3] == "0" { // a probe that was under way
			continue
		}
		written[fields[1]+" "+fields[2]]++
		if position < 0 && fields[2] == urgent.String() {
			position = i
		}
	}
	for object, n := range written {
		if n != 1 {
			t.Errorf("%s was written %d times", object, n)
		}
	}
	if len(written) != 2*replicas || position > 8 {
		t.Errorf("%d objects were written, the removal in place %d", len(written), position)
	}
}

// An API server denies everything for a moment after its start. What is urgent does
// not pay for it; one key that stays denied does not hold the others.
func TestIngressClusterDeniesWhenItComesBack(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Workers: 2, Backoff: lanes.Backoff{Base: 3 * time.Second}}
	g.start()
	const replicas = 20
	key := func(i int) syncer.Key { return syncer.Key{Namespace: "shop", Name: "web-" + number3(i)} }
	for i := range replicas {
		g.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true), pod(key(i), "10.0.0.2", true))
	}
	g.settle()
	var mu sync.Mutex
	fault := apitest.Fault{Cut: true}
	only := ""
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.UserAgent != product || !strings.Contains(r.Name, only) {
			return nil
		}
		f := fault
		return &f
	})
	for i := range replicas {
		g.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true), pod(key(i), "10.0.0.2", true), pod(key(i), "10.0.0.3", true))
	}
	g.wait("the gate is closed", g.rec.gate.shut)
	denied, urgent := key(replicas-2), key(replicas-1)
	for _, k := range []syncer.Key{denied, urgent} {
		g.source.set("a", service(k, 1, 8080), pod(k, "10.0.0.1", true))
		g.rec.Dirty(k, lanes.Removal, liveCause("a", k))
	}
	mu.Lock()
	fault = apitest.Fault{Status: http.StatusForbidden}
	mu.Unlock()
	attempts := len(g.server.Writes(product))
	g.wait("it denied a few", func() bool { return len(g.server.Writes(product)) >= attempts+6 })
	if !g.rec.gate.shut() {
		t.Error("the gate is open to a server that takes nothing")
	}
	g.writes()
	mu.Lock()
	only = denied.Name
	mu.Unlock()
	g.wait("the urgent one is written", func() bool { endpoints, _ := g.addresses(urgent); return slices.Equal(endpoints, []string{"10.0.0.1"}) })
	if w := g.writes(); len(w) > 8 {
		t.Errorf("it was among the first %d writes, want fewer:\n%s", len(w), strings.Join(w, "\n"))
	}
	g.wait("all others are written", func() bool {
		for i := range replicas - 2 {
			if endpoints, _ := g.addresses(key(i)); len(endpoints) != 3 {
				return false
			}
		}
		return true
	})
	g.server.Intercept(nil)
	g.settle()
	g.expect(denied, "10.0.0.1")
}

// A change that was taken back while the ingress cluster is away needs no request.
// The worker that finds so has proved nothing, and must let the next one try: all
// others would wait for ever.
func TestChangesTakenBackMeanwhileDoNotKeepTheGateClosed(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Workers: 2}
	g.start()
	const replicas = 20
	key := func(i int) syncer.Key { return syncer.Key{Namespace: "shop", Name: "web-" + number3(i)} }
	for i := range replicas {
		g.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true))
	}
	g.settle()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product {
			return nil
		}
		return &apitest.Fault{Cut: true}
	})
	for i := range replicas {
		g.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.2", true))
	}
	g.wait("the gate is closed", g.rec.gate.shut)
	for i := range replicas - 1 {
		g.source.set("a", service(key(i), 1, 8080), pod(key(i), "10.0.0.1", true))
		g.rec.Dirty(key(i), lanes.Removal, liveCause("a", key(i)))
	}
	g.wait("all but one need nothing", func() bool {
		q := g.rec.Queue()
		return q.Len(lanes.Removal)+q.Len(lanes.Addition)+q.Len(lanes.Bulk)+q.Waiting()+q.Working() == 1
	})
	g.server.Intercept(nil)
	g.settle()
	g.expect(key(replicas-1), "10.0.0.2")
}
