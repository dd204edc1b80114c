// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// Two processes of one instance, both of which lead: with the same members they write the
// same, with others each undoes the other's work. Both are told, and there is no war.
func TestRivalProcessIsNoticed(t *testing.T) {
	for _, agree := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			server := apitest.NewInMemory(t)
			one, two := newGroundOn(t, server, "a"), newGroundOn(t, server, "a")
			one.start()
			one.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
			one.settle()
			second := "10.0.0.1"
			if !agree {
				second = "10.0.0.2"
			}
			two.source.set("a", service(web, 1, 8080), pod(web, second, true))
			two.start()
			time.Sleep(rivalGrace)
			server.ForgetWrites()
			if !agree {
				time.Sleep(10 * time.Minute)
				if n := len(server.Writes(product)); n > 8*11 { // each of two takes and gives two objects once a minute
					t.Errorf("%d writes in ten minutes", n)
				}
			}
			for n := range 4 {
				ip := []string{"10.0.0.3", "10.0.0.4"}[n%2]
				one.set("a", service(web, 1, 8080), pod(web, ip, true))
				one.settle()
				if agree {
					two.set("a", service(web, 1, 8080), pod(web, ip, true))
				}
				time.Sleep(10 * time.Second)
			}
			told := func(g *ground) bool {
				return slices.ContainsFunc(g.seen.trouble(web).Conflicts, func(c metrics.Conflict) bool { return c.Reason == string(plan.ConflictProcess) })
			}
			if !told(two) || !agree && !told(one) {
				t.Errorf("same members %t: told %t and %t", agree, told(one), told(two))
			}
			one.stop()
			time.Sleep(rivalWindow + time.Minute)
			if told(two) {
				t.Error("still told after the other has ended")
			}
		})
	}
}

// Of two processes that lead, one lags behind. What it does not know yet it leaves as the
// other wrote it, whatever else it has to do; what it knows to be gone goes at once.
func TestWhoLagsUndoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewInMemory(t)
		fresh, late := newGroundOn(t, server, "a"), newGroundOn(t, server, "a")
		pods := func(ips ...string) (pods []*syncer.Pod) {
			for _, ip := range ips {
				pods = append(pods, pod(web, ip, true))
			}
			return pods
		}
		for _, g := range []*ground{fresh, late} {
			g.source.set("a", service(web, 1, 8080), pods("10.0.0.1", "10.0.0.2")...)
			g.start()
		}
		step := func(g *ground, what string, want []string, ips ...string) {
			t.Helper()
			g.set("a", service(web, 1, 8080), pods(ips...)...)
			time.Sleep(time.Second)
			t.Log(what)
			fresh.expect(web, want...)
		}
		step(fresh, "an address is gone", []string{"10.0.0.2"}, "10.0.0.2")
		step(fresh, "another comes", []string{"10.0.0.2", "10.0.0.3"}, "10.0.0.2", "10.0.0.3")
		step(late, "there is other news", []string{"10.0.0.2", "10.0.0.3"}, "10.0.0.1", "10.0.0.2")
		step(late, "what both know is gone", []string{"10.0.0.3"}, "10.0.0.1")
		gone := liveCause("a", web)
		gone.IP, gone.State = "10.0.0.3", "terminating"
		late.rec.Dirty(web, lanes.Removal, gone)
		time.Sleep(time.Second)
		fresh.expect(web)
		step(late, "it has caught up", []string{"10.0.0.5"}, "10.0.0.5")
		step(fresh, "so has the other", []string{"10.0.0.5"}, "10.0.0.5")
		for _, g := range []*ground{fresh, late} {
			g.settle()
		}
	})
}

// Two processes lead, and one takes away what turned not ready for a moment; the other, which
// is told that it is ready again, does not wait for long to write it.
func TestWhatAMemberSaysAfterwardsIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewInMemory(t)
		one, two := newGroundOn(t, server, "a"), newGroundOn(t, server, "a")
		for _, g := range []*ground{one, two} {
			g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
			g.start()
		}
		one.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", false), pod(web, "10.0.0.2", true))
		one.settle()
		time.Sleep(time.Second)
		again := liveCause("a", web)
		again.IP, again.State = "10.0.0.1", "ready"
		two.rec.Dirty(web, lanes.Addition, again)
		time.Sleep(rivalGrace / 2)
		one.expect(web, "10.0.0.2")
		time.Sleep(rivalGrace)
		one.expect(web, "10.0.0.1", "10.0.0.2")
	})
}

// Who was stopped does not know who deleted a replica: it waits for its members, and makes
// it anew if they still want it.
func TestWhoWasStoppedMakesNothingAnewAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewInMemory(t)
		g, other := newGroundOn(t, server, "a"), newGroundOn(t, server, "a")
		for _, one := range []*ground{g, other} {
			one.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
			one.start()
		}
		g.rec.rivals.mu.Lock()
		g.rec.rivals.awake = g.rec.rivals.awake.Add(-2 * stoppedFor)
		g.rec.rivals.mu.Unlock()
		other.unset("a", web)
		other.settle()
		time.Sleep(rivalPause / 2)
		g.expect(web)
		other.stop()
		time.Sleep(rivalPause)
		g.expect(web, "10.0.0.1")
	})
}

// One process after another, or a hand that changes replicas, is no rival.
func TestSuccessorsAndHandsAreNoRivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewInMemory(t)
		former := newGroundOn(t, server, "a")
		former.start()
		former.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		former.settle()
		g := newGroundOn(t, server, "a")
		g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.5", true))
		former.stop()
		g.start()
		time.Sleep(time.Minute)
		for range 5 {
			spoil(g)
			time.Sleep(time.Minute)
		}
		if c := g.seen.trouble(web).Conflicts; len(c) > 0 {
			t.Errorf("conflicts %+v", c)
		}
	})
}

// spoil takes all addresses from web by hand.
func spoil(g *ground) {
	apitest.Edit(g.t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.Subsets = nil })
}
