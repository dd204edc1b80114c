// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// webKey names one replica of many.
func webKey(i int) syncer.Key { return syncer.Key{Namespace: "shop", Name: "web-" + number3(i)} }

// tries counts the writes of a replica that were tried since writes was called last.
func (g *ground) tries(key syncer.Key) (n int) {
	for _, w := range g.server.Writes(product) {
		if strings.Contains(w.String(), key.String()) {
			n++
		}
	}
	return n
}

// While the ingress cluster is away, changes wait in their lanes: a probe now
// and then, not an attempt for each; afterwards each object is written once,
// and a removal before everything that waited with it.
func TestChangesWaitWhileTheIngressClusterIsAway(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Workers: 2, Most: 2}
	g.start()
	const replicas = 40
	for i := range replicas {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true))
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
		g.source.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true), pod(webKey(i), "10.0.0.3", true))
		g.rec.Dirty(webKey(i), lanes.Bulk, liveCause("a", webKey(i)))
	}
	g.wait("the breaker is open", g.rec.breaker.isOpen)
	urgent := webKey(replicas - 1)
	for range 5 { // events without number make one key dirty once
		g.source.set("a", service(urgent, 1, 8080), pod(urgent, "10.0.0.1", true))
		g.rec.Dirty(urgent, lanes.Removal, liveCause("a", urgent))
	}
	probes := len(g.server.Writes(product))
	if probes > 4*breakerFailures {
		t.Errorf("%d attempts before the breaker opened", probes)
	}
	start := time.Now()
	g.wait("a few probes were made", func() bool { return len(g.server.Writes(product)) >= probes+6 })
	if took := time.Since(start); took < 2*breakerFirst {
		t.Errorf("6 attempts within %v: the breaker lets too many through", took)
	}

	g.wait("the removal was a probe", func() bool { return g.tries(urgent) > 0 })
	g.writes()
	g.server.Intercept(nil)
	g.settle()
	for i := range replicas - 1 {
		g.expect(webKey(i), "10.0.0.1", "10.0.0.2", "10.0.0.3")
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
	g.options.Queue = lanes.Options{Workers: 2, Most: 2}
	g.start()
	const replicas = 20
	for i := range replicas {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true))
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
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true), pod(webKey(i), "10.0.0.3", true))
	}
	g.wait("the breaker is open", g.rec.breaker.isOpen)
	denied, urgent := webKey(replicas-2), webKey(replicas-1)
	for _, k := range []syncer.Key{denied, urgent} {
		g.source.set("a", service(k, 1, 8080), pod(k, "10.0.0.1", true))
		g.rec.Dirty(k, lanes.Removal, liveCause("a", k))
	}
	mu.Lock()
	fault = apitest.Fault{Status: http.StatusForbidden}
	mu.Unlock()
	g.writes()
	g.wait("it denied the urgent one a few times", func() bool { return g.tries(urgent) >= 4 })
	if !g.rec.breaker.isOpen() {
		t.Error("the breaker is closed for a server that takes nothing")
	}
	g.writes()
	mu.Lock()
	only = denied.Name
	mu.Unlock()
	g.wait("the urgent one is written", func() bool { endpoints, _ := g.addresses(urgent); return slices.Equal(endpoints, []string{"10.0.0.1"}) })
	w := g.writes()
	if at := slices.Index(w, "update endpoints "+urgent.String()+" 200"); at < 0 || at > 8 {
		t.Errorf("it is in place %d of the writes:\n%s", at, strings.Join(w, "\n"))
	}
	g.wait("all others are written", func() bool {
		for i := range replicas - 2 {
			if endpoints, _ := g.addresses(webKey(i)); len(endpoints) != 3 {
				return false
			}
		}
		return true
	})
	g.server.Intercept(nil)
	g.settle()
	g.expect(denied, "10.0.0.1")
}

// One key that never gets through, is more urgent than all others and has the most
// events does not keep the breaker open for them.
func TestOneKeyThatNeverGetsThroughHoldsNoOther(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Workers: 2, Most: 2}
	g.start()
	lost := syncer.Key{Namespace: "shop", Name: "lost"}
	g.set("a", service(lost, 1, 8080), pod(lost, "10.0.0.1", true), pod(lost, "10.0.0.2", true))
	g.settle()
	g.writes()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product || !strings.HasPrefix(r.Name, lost.Name) {
			return nil
		}
		return &apitest.Fault{Cut: true}
	})
	g.source.set("a", service(lost, 1, 8080), pod(lost, "10.0.0.1", true))
	ctx, stop := context.WithCancel(t.Context())
	var events sync.WaitGroup
	events.Go(func() {
		for tick := time.Tick(20 * time.Millisecond); ; {
			g.rec.Dirty(lost, lanes.Removal, liveCause("a", lost))
			select {
			case <-tick:
			case <-ctx.Done():
				return
			}
		}
	})
	g.wait("the breaker is open", g.rec.breaker.isOpen)
	tries := g.tries(lost)
	g.wait("every worker stands before it", func() bool { return g.tries(lost) >= tries+4 })
	const others = 6
	for i := range others {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true))
	}
	g.wait("the others are written", func() bool {
		for i := range others {
			if endpoints, _ := g.addresses(webKey(i)); len(endpoints) == 0 {
				return false
			}
		}
		return true
	})
	stop()
	events.Wait()
	g.server.Intercept(nil)
	g.settle()
	g.expect(lost, "10.0.0.1")
}

// When all that changed while the ingress cluster was away is one replica, its backoff
// does not decide when the return is noticed.
func TestLoneChangeIsWrittenSoonAfterTheReturn(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Backoff: lanes.Backoff{Base: 500 * time.Millisecond}}
	g.start()
	g.set("a", service(webKey(1), 1, 8080), pod(webKey(1), "10.0.0.1", true), pod(webKey(1), "10.0.0.2", true))
	g.settle()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product {
			return nil
		}
		return &apitest.Fault{Cut: true}
	})
	g.writes()
	g.source.set("a", service(webKey(1), 1, 8080), pod(webKey(1), "10.0.0.1", true))
	g.rec.Dirty(webKey(1), lanes.Removal, liveCause("a", webKey(1)))
	g.wait("it failed often", func() bool { return g.tries(webKey(1)) >= 10 })
	back := time.Now()
	g.server.Intercept(nil)
	g.settle()
	g.expect(webKey(1), "10.0.0.1")
	if took := time.Since(back); took > 3*breakerMax {
		t.Errorf("it was written after %v, as its backoff wanted it", took)
	}
}

// A change that was taken back while the ingress cluster is away needs no request.
// The worker that finds so has proved nothing, and must let the next one try: all
// others would wait for ever.
func TestChangesTakenBackMeanwhileDoNotKeepTheBreakerOpen(t *testing.T) {
	g := newGround(t, "a")
	g.options.Queue = lanes.Options{Workers: 2, Most: 2}
	g.start()
	const replicas = 20
	for i := range replicas {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true))
	}
	g.settle()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product {
			return nil
		}
		return &apitest.Fault{Cut: true}
	})
	for i := range replicas {
		g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.2", true))
	}
	g.wait("the breaker is open", g.rec.breaker.isOpen)
	for i := range replicas - 1 {
		g.source.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.0.0.1", true))
		g.rec.Dirty(webKey(i), lanes.Removal, liveCause("a", webKey(i)))
	}
	g.wait("all but one need nothing", func() bool {
		dirty := 0
		for _, lane := range g.rec.Queue().States() {
			dirty += lane.Depth + lane.Working
		}
		return dirty == 1
	})
	g.server.Intercept(nil)
	g.settle()
	g.expect(webKey(replicas-1), "10.0.0.2")
}
