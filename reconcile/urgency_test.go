// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// relabelled is a Service that is labelled otherwise.
func relabelled(key syncer.Key, label string) *syncer.Service {
	svc := service(key, 1, 8080)
	svc.Labels = map[string]string{"tier": label}
	return svc
}

// Away while some Services lost a pod each and all others were relabelled, it takes away
// what is dead before it does anything else, however slow the ingress cluster is; so it
// does when the ingress cluster itself was away.
func TestDeadAddressesGoBeforeAllOtherWork(t *testing.T) {
	const replicas, dead = 500, 20
	away := map[string]func(g *ground, change func()){
		"start": func(g *ground, change func()) {
			g.stop()
			change()
			g.rec = New(g.options)
			g.launch()
		},
		"outage of the ingress cluster": func(g *ground, change func()) {
			g.server.Lead(memnet.Nobody)
			time.Sleep(10 * time.Second)
			change()
			g.rec.Resync("a", "relist") // as a list tells it: in bulk
			time.Sleep(10 * time.Second)
			g.server.Lead(memnet.Open)
		},
	}
	for name, miss := range away {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGroundOn(t, apitest.NewInMemory(t), "a")
				g.start()
				for i := range replicas {
					g.set("a", relabelled(webKey(i), "old"), pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true))
				}
				g.settle()
				g.writes()
				g.server.Intercept(func(r apitest.Request) *apitest.Fault {
					if isWrite(r) {
						time.Sleep(20 * time.Millisecond)
					}
					return nil
				})
				gone := map[string]bool{}
				miss(g, func() {
					for i := range replicas {
						pods := []*syncer.Pod{pod(webKey(i), "10.0.0.1", true), pod(webKey(i), "10.0.0.2", true)}
						if i%(replicas/dead) == 7 {
							pods = pods[:1]
							gone[webKey(i).String()] = true
						}
						g.source.set("a", relabelled(webKey(i), "new"), pods...)
					}
				})
				g.settle()
				first := map[string]bool{}
				others := 0
				for _, w := range g.writes() {
					fields := strings.Fields(w)
					if len(first) == dead {
						break
					}
					if fields[1] != "endpoints" {
						continue
					}
					if replica := fields[2]; gone[replica] {
						first[replica] = true
					} else {
						others++
					}
				}
				if len(first) != dead || others > 5 {
					t.Errorf("%d others were written before all of %d that are dead", others, dead)
				}
				g.stop()
			})
		})
	}
}

func TestUrgencyIsWhatTheWriteDoes(t *testing.T) {
	tests := []struct {
		name  string
		news  lanes.Lane
		delta plan.Delta
		want  lanes.Lane
	}{
		{"a list that lacks a ready address", lanes.Bulk, plan.Delta{Removed: []string{"10.0.0.1:80"}, Lost: true}, lanes.Removal},
		{"an edit that adds a port", lanes.Removal, plan.Delta{Added: []string{"10.0.0.1:81"}}, lanes.Addition},
		{"a pod turns ready", lanes.Addition, plan.Delta{Readied: []string{"10.0.0.1:80"}}, lanes.Addition},
		{"one that was not ready goes", lanes.Removal, plan.Delta{Removed: []string{"10.0.0.1:80"}}, lanes.Addition},
		{"a label", lanes.Addition, plan.Delta{}, lanes.Bulk},
		{"the first fill", lanes.Bulk, plan.Delta{Added: []string{"10.0.0.1:80"}}, lanes.Bulk},
	}
	for _, test := range tests {
		if got := urgency(test.news, &test.delta); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// A limit on requests on this side is handed out by lane: a removal waits for its own
// tokens, though hundreds of requests wait. To wait for one is no part of a request's
// time-out.
func TestRemovalsHaveTheNextTokens(t *testing.T) {
	const replicas, qps = 100, 20
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.options.Queue.QPS, g.options.Queue.Burst = qps, 1
		g.options.RequestTimeout = time.Second / qps
		g.start()
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
		g.settle()
		for i := range replicas {
			g.set("a", service(webKey(i), 1, 8080), pod(webKey(i), "10.1.0.1", true))
		}
		time.Sleep(5 * time.Second)
		g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
		start := time.Now()
		g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
		g.wait("the address is gone", func() bool {
			endpoints, sliced := g.addresses(web)
			return !slices.Contains(endpoints, "10.0.0.1") && !slices.Contains(sliced, "10.0.0.1")
		})
		if took := time.Since(start); took > 3*time.Second/qps {
			t.Errorf("a removal of two requests took %v at %d a second", took, qps)
		}
		g.settle()
		g.stop() // first: what follows the ingress cluster may wait for the lock
		g.seen.mu.Lock()
		defer g.seen.mu.Unlock()
		for _, rec := range g.seen.records {
			if rec.Result == record.Failed {
				t.Errorf("%s failed: %s", rec.Service, rec.Error)
			}
		}
	})
}
