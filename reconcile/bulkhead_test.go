// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// However the writes of one namespace hang or fail slowly, those of another one are made
// at once: the first after a second, in which that is found out.
func TestSlowNamespaceDelaysNoOther(t *testing.T) {
	for name, answer := range map[string]func() *apitest.Fault{
		"no answer":   func() *apitest.Fault { return &apitest.Fault{Hang: true} },
		"slow 500":    func() *apitest.Fault { time.Sleep(5 * time.Second); return &apitest.Fault{Status: 500} },
		"slow answer": func() *apitest.Fault { time.Sleep(5 * time.Second); return nil },
	} {
		for _, removals := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " removals=", removals), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					slowNamespace(t, answer, removals)
				})
			})
		}
	}
}

func slowNamespace(t *testing.T, answer func() *apitest.Fault, removals bool) {
	g := newGroundOn(t, apitest.NewInMemory(t), "a")
	g.options.Queue.Backoff = lanes.Backoff{}
	g.start()
	slow := make([]syncer.Key, 60)
	for i := range slow {
		slow[i] = syncer.Key{Namespace: "slow", Name: fmt.Sprint("slow", i)}
		g.source.set("a", service(slow[i], 1, 8080), pod(slow[i], "10.0.0.1", true), pod(slow[i], "10.0.0.2", true))
		g.rec.Dirty(slow[i], lanes.Addition, liveCause("a", slow[i]))
	}
	ips := []string{"10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"}
	g.set("a", service(web, 1, 8080), podsOf(ips)...)
	g.settle()
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.Namespace == "slow" && slices.Contains([]string{"create", "update", "delete"}, r.Verb) {
			return answer()
		}
		return nil
	})
	for _, key := range slow {
		pods, lane := []*syncer.Pod{pod(key, "10.0.0.2", true)}, lanes.Removal
		if !removals {
			pods, lane = append(pods, pod(key, "10.0.0.1", true), pod(key, "10.0.0.3", true)), lanes.Addition
		}
		g.source.set("a", service(key, 1, 8080), pods...)
		g.rec.Dirty(key, lane, liveCause("a", key))
	}
	for i, pause := range []time.Duration{100 * time.Millisecond, 4 * time.Second, 20 * time.Second} {
		time.Sleep(pause)
		g.source.set("a", service(web, 1, 8080), podsOf(ips[i+1:])...)
		g.rec.Dirty(web, lanes.Removal, liveCause("a", web))
		bound := time.Second
		if i > 0 {
			bound = 100 * time.Millisecond
		}
		if took := timeUntil(func() bool {
			endpoints, sliced := g.addresses(web)
			return len(endpoints) == len(ips)-i-1 && len(sliced) == len(ips)-i-1
		}); took > bound {
			t.Errorf("removal %d elsewhere took %v", i, took)
		}
		other := syncer.Key{Namespace: "shop", Name: fmt.Sprint("other", i)}
		g.source.set("a", service(other, 1, 8080), pod(other, "10.8.0.1", true))
		g.rec.Dirty(other, lanes.Addition, liveCause("a", other))
		if took := timeUntil(func() bool { endpoints, _ := g.addresses(other); return len(endpoints) == 1 }); took > 3*bound {
			t.Errorf("addition %d elsewhere took %v", i, took)
		}
	}
	g.server.Intercept(nil)
}

// timeUntil waits for up to a minute, and returns how long.
func timeUntil(done func() bool) time.Duration {
	began := time.Now()
	for !done() && time.Since(began) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}
