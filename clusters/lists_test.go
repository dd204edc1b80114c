// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/syncer"
)

func TestEmptyListIsNotBelieved(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		show := a.hide("pods", func(string) bool { return true })
		a.with(func() { // the watch has expired, so a list has to tell
			a.rv += 10
			a.oldest = a.rv
			a.closing++
		})
		w.pass(10 * time.Minute)
		w.wantState("a", Suspect, evidence.ReasonListIncomplete)
		w.wantReady(20, 12, 1)
		w.wantDirty()
		w.wantKept(evidence.HoldList, 33) // once, though it is looked at again and again
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		if lists := a.lists["pods"]; lists > 100 { // with those that look at the revision
			t.Errorf("%d lists of pods in ten minutes", lists)
		}

		a.put(notReady(newPod("shop", "web", 1))) // what is seen to happen passes at once
		w.pass(0)
		w.wantDirty("removal shop/web: Pod shop/web-1 added (not ready)")
		w.wantReady(19, 12, 1)

		show()
		w.pass(2 * time.Minute)
		w.wantState("a", Live, ReasonNone)
		w.wantHolds()
		w.wantReady(19, 12, 1)
	})
}

func TestDeletionOfWhatIsHeldPasses(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		show := a.hide("pods", func(string) bool { return true })
		w.set.Relist("a")
		w.pass(2 * time.Second)
		w.wantReady(20, 12, 1)
		a.with(func() { a.closing++ }) // the front is well again before the next list
		show()
		for n := 1; n <= 20; n++ {
			a.remove("pods", "shop", fmt.Sprint("web-", n))
		}
		w.pass(0)
		w.wantReady(0, 12, 1)
		w.pass(time.Minute)
		w.wantHolds()
		w.wantReady(0, 12, 1)
	})
}

func TestThirdOfThePodsVanishes(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.refuse("pods")
		a.hide("pods", func(name string) bool { return numberOf(name)%3 == 0 })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantReady(20, 12, 1)
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		w.wantState("a", Live, evidence.ReasonChangesHeld)
		w.pass(6 * time.Second)
		w.wantReady(14, 8, 0)
		w.wantHolds()
		w.wantState("a", Live, ReasonNone)
	})
}

func TestMistakenListOfAMoment(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		show := a.hide("pods", func(name string) bool { return numberOf(name)%3 == 0 })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		show()
		w.pass(10 * time.Second)
		w.wantHolds()
		w.wantReady(20, 12, 1)
		w.wantDirty()
	})
}

func TestMostOfThePodsVanish(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.hide("pods", func(name string) bool { return numberOf(name)%5 != 0 })
		w.set.Relist("a")
		w.pass(10 * time.Minute)
		w.wantReady(20, 12, 1)
		w.wantDirty()
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")

		if got, ok := w.set.Release("a", &replica); !ok || got.Pods != 16 {
			t.Errorf("released %+v, %v", got, ok)
		}
		w.wantDirty("removal shop/web: Cluster released")
		w.wantReady(4, 12, 1)
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank")
		if got, ok := w.set.Release("a", nil); !ok || got.Pods != 11 {
			t.Errorf("released %+v, %v", got, ok)
		}
		w.wantReady(4, 2, 0)
		w.wantHolds()
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		if _, ok := w.set.Release("nobody", nil); ok {
			t.Error("released what is no member")
		}
	})
}

func TestRollOutThatNobodySaw(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.with(func() {
			a.drop("pods", func(name string) bool { return strings.HasPrefix(name, "web-") })
			for n := 101; n <= 120; n++ { // too old for the watch to show
				a.events = append(a.events, fakeEvent{50, "pods", "ADDED", nil, newPod("shop", "web", n)})
			}
			a.rv += 10
			a.oldest = a.rv
			a.closing++
		})
		w.pass(5 * time.Second)
		w.wantReady(20, 12, 1)
		w.wantHolds()
		if got := w.addresses("shop", "web"); got[0] != "a 10.1.0.101" {
			t.Errorf("web has %q", got)
		}
	})
}

func TestGuardThatIsTurnedOff(t *testing.T) {
	guarded(t, func(c *config.Cluster) { c.Guard.Enabled = false }, func(w *world, a *fakeAPI) {
		a.hide("pods", func(string) bool { return true })
		w.set.Relist("a")
		w.pass(10 * time.Second)
		w.wantReady(0, 0, 0)
		w.wantDirty("removal shop/api: Pod relist", "removal shop/db: Pod relist", "removal shop/web: Pod relist")
	})
}

func TestServicesVanish(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.refuse("services")
		show := a.hide("services", func(string) bool { return true })
		w.set.Relist("a")
		w.pass(time.Minute)
		w.wantReady(20, 12, 1)
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		a.put(notReady(newPod("shop", "web", 1)))
		w.pass(0)
		w.wantReady(19, 12, 1)
		show()
		w.pass(time.Minute)
		w.wantHolds()

		a.hide("services", func(name string) bool { return name == "db" })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantHolds("shop/db list_shrank")
		w.wantReady(19, 12, 1)
		w.pass(6 * time.Second)
		w.wantReady(19, 12, 0)
		w.wantHolds()
	})
}

func TestRestoredBackupIsDoubted(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.put(newPod("shop", "web", 40)) // came after the backup
		a.remove("pods", "shop", "web-20")
		a.put(notReady(newPod("shop", "web", 19)))
		w.pass(time.Minute)
		w.sink.take()
		w.wantReady(19, 12, 1)
		a.with(func() { // the server goes on without a word
			a.drop("pods", func(name string) bool { return name == "web-40" || name == "web-20" || name == "web-19" })
			for _, n := range []int{20, 19} {
				a.rv++
				a.events = append(a.events, fakeEvent{a.rv, "pods", "ADDED", nil, newPod("shop", "web", n)})
			}
			a.rewind(50)
		})
		var noticed time.Duration
		for w.status("a").Reason != string(evidence.ReasonRevisionRegressed) {
			if noticed += 100 * time.Millisecond; noticed > 20*time.Second {
				t.Fatal("not noticed within 20 s")
			}
			w.pass(100 * time.Millisecond)
		}
		w.wantState("a", Suspect, evidence.ReasonRevisionRegressed)
		w.pass(time.Second)
		w.wantState("a", Suspect, evidence.ReasonRevisionRegressed)
		w.wantDirty() // web-20 and web-19 are not believed, web-40 is kept
		w.wantReady(19, 12, 1)
		w.wantHolds("a revision_regressed")
		a.put(newPod("shop", "web", 50)) // revision 51: far below what was seen
		w.pass(0)
		w.wantReady(20, 12, 1)

		w.pass(9 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantReady(21, 12, 1)
		w.wantHolds()
		if s := w.status("a"); !strings.Contains(s.LastError, kube.ErrWentBack.Error()) {
			t.Errorf("last error %v", s.LastError)
		}
		if got := w.addresses("shop", "web"); slices.Contains(got, "a 10.1.0.40") || !slices.Contains(got, "a 10.1.0.20") {
			t.Errorf("web has %q", got)
		}
	})
}

// TestReleaseEndsTheDoubt checks that a release makes the member's lists be read
// and used at once, instead of leaving it suspect with what was there before.
func TestReleaseEndsTheDoubt(t *testing.T) {
	guarded(t, func(c *config.Cluster) { c.Guard.ConfirmAfter = "1h" }, func(w *world, a *fakeAPI) {
		w.pass(time.Minute)
		a.remove("pods", "shop", "web-20")
		w.pass(time.Second)
		a.with(func() {
			a.events = append(a.events, fakeEvent{a.rv, "pods", "ADDED", nil, newPod("shop", "web", 20)})
			a.rewind(50)
		})
		w.pass(30 * time.Second)
		w.wantState("a", Suspect, evidence.ReasonRevisionRegressed)
		w.wantReady(19, 12, 1)
		w.set.Release("a", nil)
		w.pass(5 * time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantReady(20, 12, 1)
	})
}

func TestRestoredEmptyBackup(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		w.pass(time.Minute)
		a.with(func() {
			a.drop("pods", func(string) bool { return true })
			a.drop("services", func(string) bool { return true })
			a.rewind(5)
		})
		w.pass(5 * time.Minute)
		w.wantReady(20, 12, 1)
		w.wantDirty()
		w.wantState("a", Live, evidence.ReasonChangesHeld)
		w.set.Release("a", nil)
		w.pass(time.Second)
		w.wantReady(0, 0, 0)
		w.wantState("a", Live, ReasonNone)
	})
}

func TestWrittenEndpointsVanish(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		a.refuse("endpoints")
		a.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hand"}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.8", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: newService("shop", "hand").Spec.Ports,
		}}, newEndpoints("shop", "hand", "10.9.0.1", "10.9.0.2"))
		w.pass(time.Second)
		w.wantAddresses("shop", "hand", "a 10.9.0.1", "a 10.9.0.2")
		show := a.hide("endpoints", func(string) bool { return true })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantAddresses("shop", "hand", "a 10.9.0.1", "a 10.9.0.2")
		w.wantHolds("shop/hand list_shrank")
		show()
		w.pass(10 * time.Second)
		w.wantHolds()

		a.hide("endpoints", func(string) bool { return true })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantHolds("shop/hand list_shrank")
		w.pass(10 * time.Second)
		w.wantAddresses("shop", "hand")
		w.wantHolds()
	})
}

// The process that led had the same hold; it was released there, and the replica is empty.
func TestWhatWasReleasedStaysAwayWhenAnotherLeads(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"))
		for n := 1; n <= 12; n++ {
			a.put(newPod("shop", "web", n))
		}
		a.refuse("pods")
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		a.with(func() { a.drop("pods", func(string) bool { return true }) })
		w.set.Relist("a")
		w.pass(time.Minute)
		w.wantHolds("shop/web list_shrank")
		w.set.Lead(time.Now(), func(string) map[syncer.Key]Standing {
			return map[syncer.Key]Standing{{Namespace: "shop", Name: "web"}: {}}
		})
		w.pass(time.Minute)
		w.wantHolds()
		if left := w.addresses("shop", "web"); len(left) > 0 {
			t.Errorf("%v came back", left)
		}
	})
}

// A standby has lost its way to a member; the process that led saw a roll-out since. What
// stands is better than what the standby knows, and is judged like a start when it sees again.
func TestMemberOutOfSightBeginsAnewWhenAnotherLeads(t *testing.T) {
	web := syncer.Key{Namespace: "shop", Name: "web"}
	var stands map[syncer.Key]Standing
	standing := func(string) map[syncer.Key]Standing { return stands }
	inWorld(t, func(o *Options) { o.Standing = standing }, func(w *world) {
		a, b := w.api("uid-a"), w.api("uid-b")
		for _, api := range []*fakeAPI{a, b} {
			api.put(newService("shop", "web"), newPod("shop", "web", 1), newPod("shop", "web", 2), newPod("shop", "web", 3))
		}
		w.reach("a", a.config(""), "1")
		w.reach("b", b.config(""), "1")
		w.pass(time.Minute)
		a.remove("pods", "shop", "web-2") // which nobody has written yet
		w.pass(time.Second)
		a.listener.Lead(memnet.Nobody)
		a.listener.Cut()
		w.pass(time.Minute)
		w.wantState("a", Silent, evidence.ReasonUnreachable)
		a.with(func() { a.drop("pods", func(name string) bool { return name != "web-3" }) })
		s := Standing{Sources: []syncer.Key{web}}
		for n := 2; n <= 5; n++ {
			p := newPod("shop", "web", n)
			if n > 2 {
				a.put(p)
			}
			s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: netip.MustParseAddr(p.Status.PodIP), Ready: true, Serving: true,
				Target: syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: p.Name}, UID: p.Name + "-uid"}})
		}
		stands = map[syncer.Key]Standing{web: s}
		w.set.Lead(time.Time{}, standing)
		if members := w.set.Members(); !members[0].Synced {
			t.Error("begins anew where nobody else wrote")
		}
		if anew := w.set.Lead(time.Now(), standing); !slices.Equal(anew, []string{"a"}) {
			t.Errorf("%v begin anew", anew)
		}
		w.pass(time.Minute)
		unseen := w.set.Peek(web).Shares[0]
		if gone := []netip.Addr{netip.MustParseAddr("10.1.0.2")}; !unseen.Unseen || !slices.Equal(unseen.Gone, gone) {
			t.Errorf("%+v, want all that stands but what was seen to go", unseen)
		}
		if members := w.set.Members(); members[0].Synced || !members[1].Synced {
			t.Errorf("members %+v", members)
		}
		a.listener.Lead(memnet.Open)
		a.remove("pods", "shop", "web-5")
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.3", "a 10.1.0.4", "b 10.1.0.1", "b 10.1.0.2", "b 10.1.0.3")
	})
}
