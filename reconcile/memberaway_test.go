// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// TestRestartWhileAMemberIsAway starts a second process while one of two members
// cannot be seen: in every mode of writing, what it contributed stays, through
// changes of the other one too, and nothing is written for its sake.
func TestRestartWhileAMemberIsAway(t *testing.T) {
	db := syncer.Key{Namespace: "shop", Name: "db"}
	for mode, write := range map[string][2]bool{"both": {true, true}, "Endpoints": {true, false}, "EndpointSlices": {false, true}} {
		t.Run(mode, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.source.settings.WriteEndpoints, g.source.settings.WriteSlices = write[0], write[1]
			g.options.NoSlices = !write[1]
			g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true), pod(web, "10.0.0.3", false))
			g.source.set("b", service(web, 20, 8080), pod(web, "10.8.0.1", true))
			g.source.set("a", service(db, 10, 5432), pod(db, "10.0.0.9", true))
			g.start()
			expect := func(key syncer.Key, want ...string) { t.Helper(); g.expectKinds(write, key, want...) }
			expect(web, "10.0.0.1", "10.0.0.2", "10.8.0.1")
			if got := g.rec.Standing("a"); len(got) != 2 || len(got[web].Endpoints) != 3 || len(got[db].Endpoints) != 1 || !slices.Equal(got[web].Sources, []syncer.Key{web}) {
				t.Errorf("of a stands %v", got)
			}
			g.stop()

			g.writes()
			g.source.unset("a", web)
			g.source.unset("a", db)
			g.source.setSynced("a", false)
			g.start()
			g.expectWrites()
			g.rec.Seen("b")
			g.settle()
			g.expectWrites()

			g.set("b", service(web, 20, 8080), pod(web, "10.8.0.1", false), pod(web, "10.8.0.2", true))
			g.settle()
			expect(web, "10.0.0.1", "10.0.0.2", "10.8.0.2")
			g.unset("b", web)
			g.settle()
			expect(web, "10.0.0.1", "10.0.0.2")
			expect(db, "10.0.0.9")
			g.stop()

			g.start() // and once more, with only what was recovered standing
			g.writes()
			g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.3", true))
			g.source.setSynced("a", true)
			g.rec.Seen("a")
			g.settle()
			expect(web, "10.0.0.1", "10.0.0.3")
			expect(db)
		})
	}
}

// A member that is seen makes way for what it has lost meanwhile, one after the other;
// what nobody is on record for goes with the last of them.
func TestMembersAreSeenOneByOne(t *testing.T) {
	key := func(name string) syncer.Key { return syncer.Key{Namespace: "shop", Name: name} }
	mine, theirs, shared, nobodys := key("mine"), key("theirs"), key("shared"), key("nobodys")
	g := newGround(t, "a", "b")
	g.source.set("a", service(mine, 10, 80), pod(mine, "10.0.0.1", true))
	g.source.set("b", service(theirs, 10, 80), pod(theirs, "10.8.0.1", true))
	g.source.set("a", service(shared, 10, 80), pod(shared, "10.0.0.2", true))
	g.source.set("b", service(shared, 10, 80), pod(shared, "10.8.0.2", true))
	g.source.set("b", service(nobodys, 10, 80), pod(nobodys, "10.8.0.3", true))
	g.start()
	g.stop()
	apitest.Remove[*corev1.Endpoints](t, g.server, nobodys.Namespace, nobodys.Name)
	for _, slice := range apitest.List[*discoveryv1.EndpointSlice](g.server, nobodys.Namespace) {
		if slice.Labels[discoveryv1.LabelServiceName] == nobodys.Name {
			apitest.Remove[*discoveryv1.EndpointSlice](t, g.server, slice.Namespace, slice.Name)
		}
	}
	apitest.Edit(t, g.server, nobodys.Namespace, nobodys.Name, func(s *corev1.Service) { delete(s.Annotations, "tributary.dev/sources") })

	for cluster, keys := range map[string][]syncer.Key{"a": {mine, shared}, "b": {theirs, shared, nobodys}} {
		g.source.setSynced(cluster, false)
		for _, k := range keys {
			g.source.unset(cluster, k)
		}
	}
	g.start()
	g.settle()
	g.writes()
	g.source.setSynced("a", true)
	g.rec.Seen("a")
	g.settle()
	g.expect(mine)
	g.expect(shared, "10.8.0.2")
	g.expect(theirs, "10.8.0.1")
	if _, stands := apitest.Get[*corev1.Service](g.server, nobodys.Namespace, nobodys.Name); !stands {
		t.Error("what could be of b was taken away before b was seen")
	}
	g.source.setSynced("b", true)
	g.rec.Seen("b")
	g.settle()
	g.expect(shared)
	g.expect(theirs)
	if _, stands := apitest.Get[*corev1.Service](g.server, nobodys.Namespace, nobodys.Name); stands {
		t.Error("what nobody wants stands still")
	}
}

// Endpoints were refused when a pod died, and slices were not; after a restart nobody knows
// whose its address in Endpoints is. It stays while a member may have it, and that is told.
func TestAddressesOfNobodyKnownAreTold(t *testing.T) {
	g := newGround(t, "a", "b")
	g.options.RefusalPause = time.Hour
	g.start()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
	g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.settle()
	g.faultWrites(1<<30, apitest.Fault{Status: http.StatusUnprocessableEntity}, of("endpoints"))
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	g.stop()
	g.server.Intercept(nil)
	g.source.unset("b", web)
	g.source.setSynced("b", false)
	g.start()
	if held := g.heldReasons(web); !slices.Contains(held, "b "+string(plan.HeldUnclaimed)) {
		t.Errorf("held %v", held)
	}
	g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
	g.source.setSynced("b", true)
	g.rec.Seen("b")
	g.settle()
	g.expect(web, "10.0.0.2", "10.1.0.1")
	if held := g.heldReasons(web); len(held) > 0 {
		t.Errorf("held %v", held)
	}
}

// A member that was not seen since the start counts for no ready one, so the last that are
// followed stay; and a drain that was done before is not undone for that.
func TestDrainBesideAMemberThatWasNotSeen(t *testing.T) {
	for _, drained := range []bool{false, true} {
		g := newGround(t, "a", "b")
		g.start()
		a, b := service(web, 1, 8080), service(web, 2, 8080)
		g.set("a", a, pod(web, "10.0.0.1", true))
		g.set("b", b, pod(web, "10.1.0.1", true))
		g.settle()
		want := []string{"10.0.0.1", "10.1.0.1"}
		if drained {
			g.steer(rules{drains: map[string]bool{"a": false}})
			want = want[1:]
		}
		g.stop()
		g.source.unset("b", web)
		g.source.setSynced("b", false)
		g.writes()
		g.start()
		g.steer(rules{drains: map[string]bool{"a": false}})
		g.expect(web, want...)
		g.expectWrites()
		if held := g.heldReasons(web); (len(held) > 0) == drained {
			t.Errorf("drained before: %t, held %v", drained, held)
		}
		g.source.set("b", b, pod(web, "10.1.0.1", true))
		g.source.setSynced("b", true)
		g.rec.Seen("b")
		g.settle()
		g.expect(web, "10.1.0.1")
	}
}

// So does one that is not followed count for staleAfter.
func TestStaleMemberBesideOneThatWasNotSeen(t *testing.T) {
	for _, before := range []bool{false, true} {
		g := newGround(t, "a", "b")
		g.start()
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
		g.settle()
		want := []string{"10.0.0.1", "10.1.0.1"}
		stale := func() {
			g.source.mu.Lock()
			g.source.states[0].Stale = true
			g.source.mu.Unlock()
			g.rec.Resync("a", "stale")
			g.settle()
		}
		if before {
			stale()
			want = want[1:]
			g.expect(web, want...)
		}
		g.stop()
		g.source.unset("b", web)
		g.source.setSynced("b", false)
		g.writes()
		g.start()
		stale()
		g.expect(web, want...)
		g.expectWrites()
		g.source.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
		g.source.setSynced("b", true)
		g.rec.Seen("b")
		g.settle()
		g.expect(web, "10.1.0.1")
	}
}

// TestStaleMember checks that the endpoints of a member that has been out of
// sight for too long make way for those of others, and for nobody else.
func TestStaleMember(t *testing.T) {
	only := syncer.Key{Namespace: "shop", Name: "only"}
	for mode, write := range map[string][2]bool{"both": {true, true}, "Endpoints": {true, false}, "EndpointSlices": {false, true}} {
		t.Run(mode, func(t *testing.T) {
			g := newGround(t, "a", "b")
			g.source.settings.WriteEndpoints, g.source.settings.WriteSlices = write[0], write[1]
			g.options.NoSlices = !write[1]
			expect := func(key syncer.Key, want ...string) { t.Helper(); g.expectKinds(write, key, want...) }
			b := func(ready bool) {
				g.set("b", service(web, 20, 8080), pod(web, "10.8.0.1", ready))
				g.settle()
			}
			g.source.set("a", service(web, 10, 8080), pod(web, "10.0.0.1", true))
			g.source.set("b", service(web, 20, 8080), pod(web, "10.8.0.1", true))
			g.source.set("a", service(only, 10, 8080), pod(only, "10.0.0.2", true))
			g.start()
			g.source.setStale("a", true)
			g.rec.Resync("a", "stale")
			g.settle()
			expect(web, "10.8.0.1")
			expect(only, "10.0.0.2")

			b(false)
			expect(web, "10.0.0.1") // the last ready one
			b(true)

			g.stop() // another process, which has never seen the member, knows as much
			g.source.unset("a", web)
			g.source.unset("a", only)
			g.source.setSynced("a", false)
			g.source.setStale("a", false) // and has not waited for it for long
			g.writes()
			g.start()
			expect(web, "10.8.0.1")
			expect(only, "10.0.0.2")
			g.expectWrites()
			b(false)
			expect(web, "10.0.0.1")
			b(true)
			g.source.setStale("a", true) // by now it has
			g.rec.Resync("a", "stale")
			g.settle()
			expect(web, "10.8.0.1")
		})
	}
}

// expectKinds is expect where perhaps not both kinds are written.
func (g *ground) expectKinds(write [2]bool, key syncer.Key, want ...string) {
	g.t.Helper()
	endpoints, sliced := g.addresses(key)
	if write[0] && !slices.Equal(endpoints, want) || write[1] && !slices.Equal(sliced, want) {
		g.t.Errorf("%s has Endpoints %v and slices %v, want %v", key, endpoints, sliced, want)
	}
}

func (m *members) setStale(cluster string, stale bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.states {
		if m.states[i].Name == cluster {
			m.states[i].Stale = stale
		}
	}
}
