// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

func silent(p *corev1.Pod) *corev1.Pod {
	p = notReady(p)
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
	return p
}

func TestAllNodesFallSilent(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		for n := 1; n <= 33; n++ {
			a.put(silent(newPod("shop", appOf(n), n)))
		}
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonMassNotReady)
		w.wantReady(20, 12, 1)
		w.wantHolds("a mass_not_ready")
		if !w.status("a").Panic {
			t.Error("no panic in the status")
		}
		w.wantKept(evidence.HoldPanic, 15) // 18 had turned before it was noticed, and were put back
		w.set.Relist("a")                  // a list shows the same
		w.pass(time.Hour)
		w.wantReady(20, 12, 1)
		w.wantHolds("a mass_not_ready")

		w.sink.take()
		a.remove("pods", "shop", "web-1")
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 deleted (gone)")
		for n := 2; n <= 33; n++ {
			a.put(newPod("shop", appOf(n), n))
		}
		w.pass(time.Second)
		w.wantDirty()
		w.wantState("a", Live, ReasonNone)
		w.wantReady(19, 12, 1)
	})
}

// wantBooks holds the count of pods that are ready in truth against the store, where
// nothing may be kept.
func (w *world) wantBooks(ready int) {
	w.t.Helper()
	m := w.set.applied.Load().members[0]
	m.mu.RLock()
	serving, holds := m.state.Store().Serving(), m.state.Holds()
	m.mu.RUnlock()
	stored := 0
	for _, p := range m.pods() {
		if p.Ready {
			stored++
		}
	}
	if serving != ready || stored != ready || len(holds) != 0 {
		w.t.Errorf("%d pods are counted as ready and %d taken so, want %d; %+v", serving, stored, ready, holds)
	}
}

func (m *Member) pods() []*syncer.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.Store().Pods()
}

// A server behind a load balancer repeats what is over: nothing of it is counted.
func TestOutdatedEventsAreNotCounted(t *testing.T) {
	for name, c := range map[string]struct {
		before func(a *fakeAPI)
		event  func(m *Member, v store.Versioned[syncer.Pod])
		ready  int
	}{
		"all pods were not ready": {nil, func(m *Member, v store.Versioned[syncer.Pod]) {
			v.Object.Ready = false
			m.step(&evidence.Seen[syncer.Pod]{Versioned: v}, time.Now())
		}, 33},
		"pods that are gone were ready": {func(a *fakeAPI) {
			for n := 1; n <= 33; n++ {
				a.remove("pods", "shop", fmt.Sprintf("%s-%d", appOf(n), n))
			}
		}, func(m *Member, v store.Versioned[syncer.Pod]) {
			m.step(&evidence.Seen[syncer.Pod]{Versioned: v}, time.Now())
		}, 0},
		"all pods were deleted": {nil, func(m *Member, v store.Versioned[syncer.Pod]) {
			m.step(&evidence.Gone[syncer.Pod]{Versioned: v}, time.Now())
		}, 33},
	} {
		t.Run(name, func(t *testing.T) {
			guarded(t, nil, func(w *world, a *fakeAPI) {
				m := w.set.applied.Load().members[0]
				old := m.pods()
				if c.before != nil {
					c.before(a)
					w.pass(time.Second)
					w.sink.take()
				}
				for _, p := range old {
					c.event(m, store.Versioned[syncer.Pod]{Object: *p, RV: 1})
				}
				w.pass(time.Second)
				w.wantBooks(c.ready)
				w.wantDirty()
				if got := w.counts("a").OutdatedPods; got != 33 {
					t.Errorf("%d outdated events, want 33", got)
				}
			})
		})
	}
}

// The stream of a new credential begins at the revision that was known when it was
// asked for, and so repeats what the former stream has brought meanwhile; that is not
// handed on again.
func TestRotationDoesNotCountTwice(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("Authorization") == "Bearer new" && r.URL.Query().Get("watch") != "" && strings.HasSuffix(r.URL.Path, "/pods") {
					time.Sleep(2 * time.Second)
				}
				return false
			}
		})
		w.reach("a", a.config("new"), "2")
		w.pass(500 * time.Millisecond)
		for n := 1; n <= 18; n++ {
			a.put(notReady(newPod("shop", appOf(n), n)))
		}
		w.pass(200 * time.Millisecond)
		for n := 1; n <= 18; n++ {
			a.put(newPod("shop", appOf(n), n))
		}
		w.pass(5 * time.Second)
		if n := w.counts("a").OutdatedPods; n != 0 {
			t.Errorf("%d events were handed on twice", n)
		}
		w.wantBooks(33)
		w.pass(3 * time.Minute)
		for n := 15; n <= 26; n++ { // 12 of 33, of two Services: not most
			a.put(notReady(newPod("shop", appOf(n), n)))
		}
		w.pass(5 * time.Second)
		w.wantBooks(21)
		w.wantReady(14, 6, 1)
	})
}

func TestPanicIsReleasedByHand(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		for n := 1; n <= 33; n++ {
			a.put(silent(newPod("shop", appOf(n), n)))
		}
		w.pass(time.Second)
		w.wantReady(20, 12, 1)
		if got, ok := w.set.Release("a", nil); !ok || got.NotReady != 33 {
			t.Errorf("released %+v", got)
		}
		w.pass(time.Minute)
		w.wantReady(0, 0, 0)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestRollOutToNoneReadyPasses(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		for n := 1; n <= 20; n++ {
			a.put(notReady(newPod("shop", "web", n)))
		}
		w.pass(time.Second)
		w.wantReady(0, 12, 1)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestSilentNodeIsHeldForAWhile(t *testing.T) {
	hold := func(c *config.Cluster) { c.HoldSilentNodes = "40s" }
	guarded(t, hold, func(w *world, a *fakeAPI) {
		for _, n := range []int{1, 2, 3} {
			a.put(silent(newPod("shop", "web", n)))
		}
		w.pass(30 * time.Second)
		w.wantReady(20, 12, 1)
		w.wantHolds("a node_silent")
		w.wantDirty()
		w.wantKept(evidence.HoldSilentNode, 3)
		a.put(notReady(newPod("shop", "web", 2))) // the node speaks: its containers are not ready
		a.put(newPod("shop", "web", 3))
		w.pass(0)
		w.wantReady(19, 12, 1)
		w.pass(11 * time.Second)
		w.wantReady(18, 12, 1)
		w.wantHolds()
	})
}

func TestMemberThatGrowsTooLarge(t *testing.T) {
	guarded(t, func(c *config.Cluster) { c.MaxObjects = 40 }, func(w *world, a *fakeAPI) {
		for n := 34; n <= 60; n++ {
			a.put(newPod("shop", "db", n))
		}
		w.pass(time.Second)
		w.wantState("a", Silent, evidence.ReasonTooManyObjects)
		w.wantReady(20, 12, 8)
		a.put(notReady(newPod("shop", "web", 1))) // what it has is followed
		w.pass(0)
		w.wantReady(19, 12, 8)
		for n := 34; n <= 59; n++ {
			a.remove("pods", "shop", fmt.Sprint("db-", n))
		}
		w.pass(10 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantReady(19, 12, 2) // db-60 too, which was not seen when it came
	})
}

func TestStaleMember(t *testing.T) {
	var changed []string
	inWorld(t, func(o *Options) { o.Changed = func(name string) { changed = append(changed, name) } }, func(w *world) {
		w.tweak = func(c *config.Cluster) { c.StaleAfter = "5m" }
		a := w.api("uid-a")
		fill(a)
		w.reach("a", a.config(""), "1")
		w.pass(time.Hour)
		stale := func() bool { return w.set.Members()[0].Stale }
		if stale() {
			t.Error("stale although it is in sight")
		}
		a.with(func() { a.deny["pods"], a.deny["services"] = 403, 403; a.closing++ })
		w.pass(4 * time.Minute)
		if stale() {
			t.Error("stale too early")
		}
		changed = nil
		w.pass(2 * time.Minute)
		if !stale() || !w.status("a").Stale || !slices.Equal(changed, []string{"a"}) {
			t.Errorf("stale is %v, told %q", stale(), changed)
		}
		a.with(func() { clear(a.deny) })
		w.pass(10 * time.Second)
		if stale() {
			t.Error("still stale")
		}
	})
}

// Its kubeconfig leads to another cluster now, and the connection in use to it still.
func TestFollowedMemberIsNotStale(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		w.tweak = func(c *config.Cluster) { c.StaleAfter = "1m" }
		b := w.api("uid-b")
		w.reach("a", b.config(""), "2")
		w.pass(3 * time.Minute)
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantReady(19, 12, 1)
		if s := w.status("a"); s.Stale || s.Reason != string(evidence.ReasonIdentityMismatch) {
			t.Errorf("stale is %v, reason %s", s.Stale, s.Reason)
		}
		a.listener.Freeze()
		w.pass(2 * time.Minute)
		if !w.status("a").Stale {
			t.Error("not stale although nothing leads to it any more")
		}
	})
}
