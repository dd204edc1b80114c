// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func isWrite(r apitest.Request) bool {
	return r.Verb == "create" || r.Verb == "update" || r.Verb == "delete"
}

// An ingress cluster that refuses whatever is written is known as such within seconds,
// though it answers and its watches go on.
func TestTotalRefusalIsKnownWithinSeconds(t *testing.T) {
	tests := []struct {
		name string
		// roles is false where the right itself is gone; else something refuses each write.
		roles, reads bool
	}{
		{"roles taken away", false, true},
		{"a policy denies every write", true, true},
		{"everything is forbidden", false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, _ := pipedGround(t)
				other := syncer.Key{Namespace: "office", Name: "mail"}
				g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
				g.set("a", service(other, 1, 8080), pod(other, "10.0.0.1", true))
				g.settle()
				g.server.Allow(func(r apitest.Request) bool { return test.roles || !isWrite(r) })
				g.server.Intercept(func(r apitest.Request) *apitest.Fault {
					if isWrite(r) || !test.reads && r.Verb != "watch" {
						return &apitest.Fault{Status: http.StatusForbidden}
					}
					return nil
				})
				g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
				g.until(true, 5*time.Second)
				time.Sleep(time.Minute)
				if g.rec.Trouble() == nil {
					t.Error("the trouble is over although nothing was taken")
				}
				g.server.Allow(nil)
				g.server.Intercept(nil)
				g.until(false, 5*time.Second)
				g.settle()
				g.expect(web, "10.0.0.1")
				g.stop()
			})
		})
	}
}

// Single objects are read only in doubt, so that the right to is none that must be.
func TestIngressClusterThatMayNotBeReadIsNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		g.server.Allow(func(r apitest.Request) bool { return r.Verb != "get" })
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if err := g.rec.Trouble(); err != nil || g.rec.breaker.isOpen() {
				t.Fatalf("that nothing may be read is trouble: %v", err)
			}
		}
		g.stop()
	})
}

// What is denied to one replica is no trouble of the ingress cluster.
func TestDenialOfOneReplicaOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		other := syncer.Key{Namespace: "office", Name: "mail"}
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.set("a", service(other, 1, 8080), pod(other, "10.0.0.1", true))
		g.settle()
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if isWrite(r) && r.Namespace == web.Namespace {
				return &apitest.Fault{Status: http.StatusForbidden}
			}
			return nil
		})
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.3", true))
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if err := g.rec.Trouble(); err != nil || g.rec.breaker.isOpen() {
				t.Fatalf("one replica's denial is trouble: %v", err)
			}
		}
		g.stop()
	})
}

// An idle Tributary reads to see whether the ingress cluster is there, and sends nothing
// that could be taken for a write.
func TestProbesOfAnIdleClusterOnlyRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		var reads, asks atomic.Int32
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			switch r.Verb {
			case "get":
				reads.Add(1)
			case "list", "watch":
			default:
				asks.Add(1)
			}
			return nil
		})
		time.Sleep(5 * time.Minute)
		if n := asks.Load(); n != 0 {
			t.Errorf("%d requests were sent that do not read", n)
		}
		if n := reads.Load(); n < 90 {
			t.Errorf("%d reads in 5 minutes, want one every %v", n, probeEvery)
		}
		g.stop()
	})
}

// The breaker opens after enough requests that nobody answers, at once where nobody is
// there, and closes with the first write that is taken.
func TestBreakerOpensAndCloses(t *testing.T) {
	lost := errors.New("no answer")
	b := newBreaker(nil, func(bool) {}, nil, func() {}, nil)
	for range breakerFailures - 1 {
		b.answer(lost)
	}
	if b.isOpen() {
		t.Error("it opened too early")
	}
	b.answer(nil)
	for range breakerFailures - 1 {
		b.answer(lost)
	}
	if b.isOpen() {
		t.Error("failures before a success count")
	}
	b.answer(lost)
	if !b.isOpen() || b.trouble() == nil || !strings.Contains(b.trouble().Error(), "no answer") {
		t.Errorf("it is open: %v, for %v", b.isOpen(), b.trouble())
	}
	b.answer(nil)
	if b.isOpen() || b.trouble() != nil {
		t.Errorf("it stays open for %v", b.trouble())
	}
}

// An outage during which nothing changed ends without anything that a server counts as a
// write, also where the server denies everything for a moment after its start.
func TestQuietOutageTriesOutNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		var writes atomic.Int32
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if isWrite(r) {
				writes.Add(1)
			}
			return nil
		})
		g.server.Lead(memnet.Nobody)
		time.Sleep(20 * time.Second)
		if !g.rec.breaker.isOpen() {
			t.Error("nobody answers, and the breaker is closed")
		}
		g.server.Allow(func(apitest.Request) bool { return false })
		g.server.Lead(memnet.Open)
		time.Sleep(time.Second)
		g.server.Allow(func(apitest.Request) bool { return true })
		time.Sleep(20 * time.Second)
		if err := g.rec.Trouble(); err != nil {
			t.Errorf("the ingress cluster is back: %v", err)
		}
		if n := writes.Load(); n != 0 {
			t.Errorf("%d writes, or trials of one, where nothing changed", n)
		}
		g.stop()
	})
}

// Writes are denied in all namespaces but one, again and again: that is known, and a
// removal in the one waits for nothing.
func TestDenialInNearlyAllNamespacesStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.start()
		denied := make([]syncer.Key, 5)
		pods := func(i, n int) (pods []*syncer.Pod) {
			for j := range n {
				pods = append(pods, pod(denied[i], fmt.Sprintf("10.0.%d.%d", i, j+1), true))
			}
			return pods
		}
		for i := range denied {
			denied[i] = syncer.Key{Namespace: fmt.Sprint("denied", i), Name: "web"}
			g.set("a", service(denied[i], 1, 8080), pods(i, 41)...)
		}
		ips := []string{"10.9.0.1", "10.9.0.2", "10.9.0.3"}
		g.set("a", service(web, 1, 8080), podsOf(ips)...)
		g.settle()
		g.faultWrites(1<<30, apitest.Fault{Status: http.StatusForbidden}, func(r apitest.Request) bool { return r.Namespace != web.Namespace })
		for n := range 40 {
			for i := range denied {
				g.source.set("a", service(denied[i], 1, 8080), pods(i, 40-n)...)
				g.rec.Dirty(denied[i], lanes.Removal, liveCause("a", denied[i]))
				time.Sleep(40 * time.Millisecond)
			}
			if n == 17 || n == 34 {
				left := ips[n/17:]
				g.source.set("a", service(web, 1, 8080), podsOf(left)...)
				g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
				if took := timeUntil(func() bool { _, sliced := g.addresses(web); return len(sliced) == len(left) }); took > 100*time.Millisecond {
					t.Errorf("the removal took %v", took)
				}
			}
		}
		g.server.Intercept(nil)
	})
}

// Whatever is written fails, of many replicas: each is tried at its own pace, that it fails is
// told all the time, and when it is over all is written at once.
func TestServerThatFailsAllWritesIsNotHammered(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			g := slowed(t, "a")
			keys := make([]syncer.Key, 20)
			for i := range keys {
				keys[i] = syncer.Key{Namespace: fmt.Sprint("ns", i), Name: "web"}
				g.set("a", service(keys[i], 1, 8080), pod(keys[i], "10.0.0.1", true), pod(keys[i], "10.0.0.2", true))
			}
			g.settle()
			var asked atomic.Int32
			g.server.Intercept(func(r apitest.Request) *apitest.Fault {
				if !isWrite(r) {
					return nil
				}
				asked.Add(1)
				return &apitest.Fault{Status: code}
			})
			for _, key := range keys {
				g.set("a", service(key, 1, 8080), pod(key, "10.0.0.2", true))
			}
			time.Sleep(time.Minute)
			asked.Store(0)
			untold, quiet := 0, 0
			for range 120 {
				time.Sleep(500 * time.Millisecond)
				if !g.reports(keys[0], plan.ConflictFailing, plan.ConflictRefused) {
					untold++
				}
				if code != http.StatusTooManyRequests && g.rec.Trouble() == nil {
					quiet++
				}
			}
			if n := asked.Load(); n > 1500 || untold+quiet > 0 {
				t.Errorf("%d: %d requests in a minute; of 120 looks the replica was in no conflict at %d, and the server well at %d", code, n, untold, quiet)
			}
			g.server.Intercept(nil)
			if took := timeUntil(func() bool { endpoints, _ := g.addresses(keys[7]); return len(endpoints) == 1 }); took > 40*time.Second {
				t.Errorf("%d: written %v after its end", code, took)
			}
			if time.Sleep(time.Minute); g.rec.Trouble() != nil {
				t.Errorf("%d: still in trouble: %v", code, g.rec.Trouble())
			}
		})
	}
}

// An outage ends in denials in all namespaces but one: what is urgent there is soon written.
func TestOutageThatEndsInDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := pipedGround(t)
		g.options.Queue.Backoff = lanes.Backoff{}
		denied := make([]syncer.Key, 40)
		for i := range denied {
			denied[i] = syncer.Key{Namespace: fmt.Sprint("denied", i), Name: "web"}
			g.set("a", service(denied[i], 1, 8080), pod(denied[i], "10.0.0.1", true), pod(denied[i], "10.0.0.2", true))
		}
		g.set("a", service(web, 1, 8080), pod(web, "10.9.0.1", true), pod(web, "10.9.0.2", true))
		g.settle()
		g.server.Lead(memnet.Nobody)
		for _, key := range denied {
			g.set("a", service(key, 1, 8080), pod(key, "10.0.0.2", true))
		}
		g.set("a", service(web, 1, 8080), pod(web, "10.9.0.2", true))
		time.Sleep(20 * time.Second)
		if !g.rec.breaker.isOpen() {
			t.Error("nobody answers, and the breaker is closed")
		}
		g.server.Intercept(func(r apitest.Request) *apitest.Fault {
			if isWrite(r) && r.Namespace != web.Namespace {
				return &apitest.Fault{Status: http.StatusForbidden}
			}
			return nil
		})
		g.server.Lead(memnet.Open)
		if took := timeUntil(func() bool { endpoints, _ := g.addresses(web); return len(endpoints) == 1 }); took > probeLimit+2*time.Second {
			t.Errorf("it took %v", took)
		}
		g.server.Intercept(nil)
		g.settle()
		g.stop()
	})
}
