// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

// replaced makes a pod another one of that name.
func replaced(p *corev1.Pod) *corev1.Pod {
	p.UID = types.UID(p.Name + "-another")
	return p
}

// restarted is a world in which everything that fill makes stands ready from before,
// and of which the first lists show what spoil made of it.
func restarted(t *testing.T, tweak func(*config.Cluster), spoil func(a *fakeAPI), script func(w *world, a *fakeAPI)) {
	t.Helper()
	inWorld(t, standing(20, 12, 1), func(w *world) {
		w.tweak = tweak
		a := w.api("uid-a")
		fill(a)
		spoil(a)
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		script(w, a)
	})
}

func TestPanicOutlastsARestart(t *testing.T) {
	down := func(a *fakeAPI) {
		for n := 1; n <= 33; n++ {
			if n%5 != 0 {
				a.put(notReady(newPod("shop", appOf(n), n)))
			}
		}
	}
	restarted(t, nil, down, func(w *world, a *fakeAPI) {
		w.wantState("a", Live, evidence.ReasonMassNotReady)
		w.wantHolds("a mass_not_ready")
		w.wantReady(20, 12, 1)
		a.put(newPod("shop", "web", 1)) // one recovers
		w.pass(2 * time.Minute)
		w.set.Relist("a")
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonMassNotReady)
		w.wantReady(20, 12, 1)
		a.remove("pods", "shop", "web-2")
		w.pass(0)
		w.wantReady(19, 12, 1)
		for n := 3; n <= 33; n++ {
			a.put(newPod("shop", appOf(n), n))
		}
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantReady(19, 12, 1)
		w.wantBooks(32)
	})
}

// TestPanicThatIsHalfOverOutlastsARestart: too few are down to begin a panic, and too many to
// end one that is on record.
func TestPanicThatIsHalfOverOutlastsARestart(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		onRecord := func(o *Options) {
			standing(20, 12, 1)(o)
			o.PanicAt = func(cluster string) (at time.Time) {
				if recorded && cluster == "a" {
					at = time.Now().Add(-time.Hour)
				}
				return at
			}
		}
		inWorld(t, onRecord, func(w *world) {
			a := w.api("uid-a")
			fill(a)
			for n := 1; n <= 33; n += 2 {
				a.put(notReady(newPod("shop", appOf(n), n)))
			}
			w.reach("a", a.config(""), "1")
			w.pass(time.Minute)
			ready := 0
			for _, m := range w.set.Status() {
				ready += m.Endpoints.Ready
			}
			if kept := ready == 33; kept != recorded {
				t.Errorf("a panic on record %t: %d endpoints are ready of 33 that stood, 17 of whose pods are not", recorded, ready)
			}
		})
	}
}

func TestAllPodsNotReadyAfterARestart(t *testing.T) {
	down := func(a *fakeAPI) {
		for n := 1; n <= 33; n++ {
			a.put(notReady(newPod("shop", appOf(n), n)))
		}
	}
	restarted(t, nil, down, func(w *world, a *fakeAPI) {
		w.wantState("a", Live, evidence.ReasonMassNotReady)
		w.wantReady(20, 12, 1)
		if got, ok := w.set.Release("a", nil); !ok || got.NotReady != 33 {
			t.Errorf("released %+v", got)
		}
		w.wantReady(0, 0, 0)
		w.wantHolds()
	})
}

func TestHoldForASilentNodeOutlastsARestart(t *testing.T) {
	hold := func(c *config.Cluster) { c.HoldSilentNodes = "10m" }
	down := func(a *fakeAPI) {
		for n := 1; n <= 8; n++ {
			a.put(silent(newPod("shop", "web", n)))
		}
	}
	restarted(t, hold, down, func(w *world, a *fakeAPI) {
		w.wantState("a", Live, ReasonNone)
		w.wantHolds("a node_silent")
		w.wantReady(20, 12, 1)
		a.put(notReady(newPod("shop", "web", 1))) // its node speaks
		w.pass(0)
		w.wantReady(19, 12, 1)
		w.pass(10 * time.Minute)
		w.wantReady(12, 12, 1)
		w.wantHolds()
	})
}

// What stands ready though its pod is not says nothing where that is what the Service
// wants, and nothing of another pod.
func TestPodsThatDidNotTurnNotReadyAreNotRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		spoil         func(a *fakeAPI)
		web, api, not int // ready, and pods that are not
	}{
		"Services publish all pods": {func(a *fakeAPI) {
			for _, app := range []string{"web", "api"} {
				svc := newService("shop", app)
				svc.Spec.PublishNotReadyAddresses = true
				a.put(svc)
			}
			for n := 1; n <= 32; n++ {
				a.put(notReady(newPod("shop", appOf(n), n)))
			}
		}, 20, 12, 32},
		"pods were replaced": {func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { n := numberOf(name); return n <= 15 || n > 20 && n <= 30 })
			for n := 1; n <= 30; n++ {
				if n <= 15 || n > 20 {
					a.put(replaced(notReady(newPod("shop", appOf(n), n))))
				}
			}
		}, 5, 2, 25},
	} {
		t.Run(name, func(t *testing.T) {
			restarted(t, nil, c.spoil, func(w *world, a *fakeAPI) {
				w.pass(10 * time.Second) // a second look, where one is due
				w.wantState("a", Live, ReasonNone)
				w.wantHolds()
				w.wantReady(c.web, c.api, 1)
				w.wantBooks(33 - c.not)
			})
		})
	}
}

// TestPublishedPodsStandUntilServicesAreRead: pods may be listed before the Services that
// publish them though they are not ready. On record as published they stay; an ordinary
// Service's are taken off at once.
func TestPublishedPodsStandUntilServicesAreRead(t *testing.T) {
	web := syncer.Key{Namespace: "shop", Name: "web"}
	for name, publishes := range map[string]bool{"published": true, "ordinary": false} {
		t.Run(name, func(t *testing.T) {
			stood := func(o *Options) {
				standing(2, 0, 0)(o)
				all := o.Standing("a")
				if s := all[web]; publishes {
					s.Publishing = s.Sources
					all[web] = s
				}
				o.Standing = func(string) map[syncer.Key]Standing { return all }
			}
			inWorld(t, stood, func(w *world) {
				a := w.api("uid-a")
				svc := newService("shop", "web")
				svc.Spec.PublishNotReadyAddresses = publishes
				a.put(svc, notReady(newPod("shop", "web", 1)), notReady(newPod("shop", "web", 2)))
				a.hook = func(_ http.ResponseWriter, r *http.Request) bool {
					if strings.HasSuffix(r.URL.Path, "/services") {
						time.Sleep(time.Second)
					}
					return false
				}
				w.reach("a", a.config(""), "1")
				w.pass(500 * time.Millisecond)
				w.wantState("a", Syncing, ReasonNone)
				if shares := w.set.Peek(web).Shares; publishes && len(shares) > 0 || !publishes && (len(shares) != 1 || len(shares[0].Gone) != 2) {
					t.Errorf("before Services are read: %+v", shares)
				}
				w.pass(time.Second)
				w.wantState("a", Live, ReasonNone)
				want := []string{"a 10.1.0.1", "a 10.1.0.2"}
				if !publishes {
					want = nil
				}
				w.wantAddresses("shop", "web", want...)
				if took := strings.Join(w.sink.take(), "\n"); strings.Contains(took, "removal shop/web: Pod") == publishes {
					t.Errorf("changes:\n%s", took)
				}
			})
		})
	}
}

// TestTheMembersClockCountsAfterARestart: how long an endpoint has been ready is told by
// the member's clock, which may be any, and never more than since its last change.
func TestTheMembersClockCountsAfterARestart(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		stood := func(o *Options) {
			o.Standing = func(string) map[syncer.Key]Standing {
				key, pod := syncer.Key{Namespace: "shop", Name: "web"}, syncer.Key{Namespace: "shop", Name: "web-1"}
				return map[syncer.Key]Standing{key: {Sources: []syncer.Key{key}, Endpoints: []syncer.Endpoint{{
					Addr: netip.MustParseAddr("10.1.0.1"), Target: syncer.TargetRef{Kind: "Pod", Key: pod, UID: "web-1-uid"},
				}}}}
			}
		}
		inWorld(t, stood, func(w *world) {
			w.tweak = func(c *config.Cluster) {
				c.Readiness.StableFor, c.Readiness.KeepOne = "30s", new(bool)
			}
			a := w.api("uid-a")
			a.hook = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
				return false
			}
			pod := newPod("shop", "web", 1)
			turned := metav1.NewTime(time.Now().Add(ahead - 20*time.Second))
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(turned.Add(-time.Hour)) // of before
			pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(metav1.NewTime(turned.Add(-time.Minute)))}, {Manager: "kubelet", Subresource: "status", Time: &turned}, {Manager: "old"}}
			a.put(newService("shop", "web"), pod)
			w.reach("a", a.config(""), "1")
			w.pass(7 * time.Second)
			w.wantAddresses("shop", "web")
			w.pass(8 * time.Second)
			w.wantAddresses("shop", "web", "a 10.1.0.1")
		})
	}
}
