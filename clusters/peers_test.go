// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/config"
)

// TestKeepOneOfSeveralMembers: an endpoint waits while another member gives the replica a ready one, and returns in the
// moment in which none does.
func TestKeepOneOfSeveralMembers(t *testing.T) {
	drained := ""
	prepare := func(w *world) (a, b *fakeAPI) {
		w.tweak = func(c *config.Cluster) {
			c.Readiness.StableFor = "10s"
			c.Guard.PanicPercent = 100
			c.Drain = c.Name == drained
		}
		a, b = w.api("uid-a"), w.api("uid-b")
		for i, api := range []*fakeAPI{a, b} {
			api.put(newService("shop", "web"), newPod("shop", "web", 1+i))
		}
		w.reach("a", a.config(""), "1")
		w.reach("b", b.config(""), "1")
		w.pass(time.Second)
		w.wantAddresses("shop", "web", "a 10.1.0.1", "b 10.1.0.2")
		return a, b
	}
	flap := func(w *world, api *fakeAPI, pod func() *corev1.Pod) {
		api.put(notReady(pod()))
		w.pass(0)
		api.put(pod())
		w.pass(0)
	}
	web := func(n int) func() *corev1.Pod { return func() *corev1.Pod { return newPod("shop", "web", n) } }

	t.Run("others fall", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			a, b := prepare(w)
			flap(w, a, web(1))
			w.pass(3 * time.Second)
			w.wantAddresses("shop", "web", "b 10.1.0.2")
			if n := w.status("a").Endpoints.Damped; n != 1 {
				t.Errorf("%d endpoints wait", n)
			}
			w.sink.take()
			b.put(notReady(web(2)()))
			w.pass(0)
			w.wantAddresses("shop", "web", "a 10.1.0.1")
			w.wantDirty("removal shop/web: Pod shop/web-2 modified (not ready)", "addition shop/web: Pod shop/web-1 keep_one (ready)")
			b.put(web(2)())
			w.pass(9 * time.Second)
			w.wantAddresses("shop", "web", "a 10.1.0.1")
			w.pass(2 * time.Second)
			w.wantAddresses("shop", "web", "a 10.1.0.1", "b 10.1.0.2")
		})
	})
	t.Run("nobody else", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			a, b := prepare(w)
			b.put(notReady(web(2)()))
			w.pass(time.Second)
			w.sink.take()
			flap(w, a, web(1))
			w.wantAddresses("shop", "web", "a 10.1.0.1")
		})
	})
	t.Run("a member that is drained does not count", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			a, _ := prepare(w)
			flap(w, a, web(1))
			w.wantAddresses("shop", "web", "b 10.1.0.2")
			drained = "b"
			w.apply()
			w.pass(time.Second) // a tick asks again
			w.wantAddresses("shop", "web", "a 10.1.0.1", "b 10.1.0.2")
			if a, b := w.status("a"), w.status("b"); !a.DrainSince.IsZero() || b.DrainSince.IsZero() {
				t.Errorf("shown as drained: a %v, b %v", a.DrainSince, b.DrainSince)
			}
			drained = ""
		})
	})
	t.Run("the other is taken out of the file", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			a, _ := prepare(w)
			flap(w, a, web(1))
			w.forget("b")
			w.pass(time.Second)
			w.wantAddresses("shop", "web", "a 10.1.0.1")
		})
	})
}
