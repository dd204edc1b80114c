// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// guarded is a world with one live member "a": web has 20 pods (1 to 20), api 12
// (21 to 32), db one (33).
func guarded(t *testing.T, tweak func(*config.Cluster), script func(w *world, a *fakeAPI)) {
	t.Helper()
	inWorld(t, nil, func(w *world) {
		w.tweak = tweak
		a := w.api("uid-a")
		fill(a)
		w.reach("a", a.config(""), "1")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.sink.take()
		script(w, a)
	})
}

func fill(a *fakeAPI) {
	a.put(newService("shop", "web"), newService("shop", "api"), newService("shop", "db"))
	for n := 1; n <= 33; n++ {
		a.put(newPod("shop", appOf(n), n))
	}
}

func appOf(n int) string {
	switch {
	case n <= 20:
		return "web"
	case n <= 32:
		return "api"
	default:
		return "db"
	}
}

// numberOf is the number of a pod by its name.
func numberOf(name string) (n int) {
	_, _ = fmt.Sscanf(name[strings.LastIndex(name, "-")+1:], "%d", &n)
	return n
}

// hide makes lists lack pods, without an event; the returned function ends it.
func (f *fakeAPI) hide(resource string, match func(name string) bool) (show func()) {
	var saved []fakeEvent
	left := 0
	f.with(func() {
		saved = slices.Clone(f.events)
		f.drop(resource, match)
		left = len(f.events)
	})
	return func() { f.with(func() { f.events = append(saved, f.events[left:]...) }) }
}

func (w *world) wantReady(web, api, db int) {
	w.t.Helper()
	for app, want := range map[string]int{"web": web, "api": api, "db": db} {
		if got := len(w.addresses("shop", app)); got != want {
			w.t.Errorf("%s has %d ready addresses, want %d", app, got, want)
		}
	}
}

// wantHolds compares what is held: "replica reason", "a" for the whole member.
func (w *world) wantHolds(want ...string) {
	w.t.Helper()
	var got []string
	for _, h := range w.status("a").Holds {
		at := "a"
		if h.Replica != (syncer.Key{}) {
			at = h.Replica.String()
		}
		got = append(got, at+" "+string(h.Reason))
		if h.Since.IsZero() || h.Message == "" {
			w.t.Errorf("hold without time or message: %+v", h)
		}
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("holds %q, want %q", got, want)
	}
}

var replica = syncer.Key{Namespace: "shop", Name: "web"}

func TestEmptyListIsNotBelieved(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
		show := a.hide("pods", func(string) bool { return true })
		a.with(func() { // the watch has expired, so a list has to tell
			a.rv += 10
			a.oldest = a.rv
			a.closing++
		})
		w.pass(10 * time.Minute)
		w.wantState("a", Live, ReasonChangesHeld)
		w.wantReady(20, 12, 1)
		w.wantDirty()
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		if lists := a.lists["pods"]; lists > 80 { // with those that look at the revision
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
		a.hide("pods", func(name string) bool { return numberOf(name)%3 == 0 })
		w.set.Relist("a")
		w.pass(time.Second)
		w.wantReady(20, 12, 1)
		w.wantHolds("shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank")
		w.wantState("a", Live, ReasonChangesHeld)
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
		for w.status("a").Reason != ReasonRevisionRegressed {
			if noticed += 100 * time.Millisecond; noticed > 20*time.Second {
				t.Fatal("not noticed within 20 s")
			}
			w.pass(100 * time.Millisecond)
		}
		w.wantState("a", Suspect, ReasonRevisionRegressed)
		w.pass(time.Second)
		w.wantState("a", Suspect, ReasonRevisionRegressed)
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
		if s := w.status("a"); !errors.Is(s.LastError, ErrWentBack) {
			t.Errorf("last error %v", s.LastError)
		}
		if got := w.addresses("shop", "web"); slices.Contains(got, "a 10.1.0.40") || !slices.Contains(got, "a 10.1.0.20") {
			t.Errorf("web has %q", got)
		}
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
		w.wantState("a", Live, ReasonChangesHeld)
		w.set.Release("a", nil)
		w.pass(time.Second)
		w.wantReady(0, 0, 0)
		w.wantState("a", Live, ReasonNone)
	})
}

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
		w.wantState("a", Live, ReasonMassNotReady)
		w.wantReady(20, 12, 1)
		w.wantHolds("a mass_not_ready")
		if !w.status("a").Panic {
			t.Error("no panic in the status")
		}
		w.set.Relist("a") // a list shows the same
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
		a.put(notReady(newPod("shop", "web", 2))) // the node speaks: its containers are not ready
		a.put(newPod("shop", "web", 3))
		w.pass(0)
		w.wantReady(19, 12, 1)
		w.pass(11 * time.Second)
		w.wantReady(18, 12, 1)
		w.wantHolds()
	})
}

// standing makes the ingress cluster hold endpoints of the member from before.
func standing(web, api, db int) func(*Options) {
	return func(o *Options) {
		o.Standing = func(string) map[syncer.Key]int {
			return map[syncer.Key]int{{Namespace: "shop", Name: "web"}: web, {Namespace: "shop", Name: "api"}: api, {Namespace: "shop", Name: "db"}: db}
		}
	}
}

func TestFirstLists(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*Options)
		spoil   func(a *fakeAPI)
		mend    func(a *fakeAPI)
		want    string // "synced", "confirmed", "held"
	}{
		"as before":         {prepare: standing(20, 12, 1), want: "synced"},
		"a Service is gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) { a.remove("services", "shop", "api") }, want: "synced"},
		"most is gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name)%4 != 0 })
		}, want: "confirmed"},
		"no pod of many is listed": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }, mend: fill, want: "held"},
		"no pod of few is listed":  {prepare: standing(2, 1, 1), spoil: func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }, want: "confirmed"},
		"no pod is ready": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			for n := 1; n <= 33; n++ {
				a.put(notReady(newPod("shop", appOf(n), n)))
			}
		}, mend: fill, want: "held"},
		"it never had any": {spoil: func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }, want: "synced"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, c.prepare, func(w *world) {
				a := w.api("uid-a")
				fill(a)
				if c.spoil != nil {
					c.spoil(a)
				}
				w.reach("a", a.config(""), "1")
				w.pass(2 * time.Second)
				synced := func() bool { return w.set.Members()[0].Synced }
				if got := synced(); got != (c.want == "synced") {
					t.Fatalf("synced at once is %v, want %s", got, c.want)
				}
				w.pass(10 * time.Second)
				if got := synced(); got != (c.want != "held") {
					t.Fatalf("synced after a second look is %v, want %s", got, c.want)
				}
				if c.want != "held" {
					return
				}
				w.pass(time.Hour)
				w.wantState("a", Suspect, ReasonListsShrank)
				w.wantHolds("a first_list_shrank")
				c.mend(a)
				w.pass(2 * time.Minute)
				w.wantState("a", Live, ReasonNone)
				w.wantReady(20, 12, 1)
			})
		})
	}
}

func TestFirstListsAreReleasedByHand(t *testing.T) {
	inWorld(t, standing(20, 12, 1), func(w *world) {
		a := w.api("uid-a")
		a.put(newService("shop", "web"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Suspect, ReasonListsShrank)
		if got, ok := w.set.Release("a", nil); !ok || !got.Lists {
			t.Errorf("released %+v", got)
		}
		w.wantState("a", Live, ReasonNone)
		w.wantDirty("bulk addition shop/web: Cluster relist")
	})
}

func TestMemberThatGrowsTooLarge(t *testing.T) {
	guarded(t, func(c *config.Cluster) { c.MaxObjects = 40 }, func(w *world, a *fakeAPI) {
		for n := 34; n <= 60; n++ {
			a.put(newPod("shop", "db", n))
		}
		w.pass(time.Second)
		w.wantState("a", Silent, ReasonTooManyObjects)
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

func TestWrittenEndpointsVanish(t *testing.T) {
	guarded(t, nil, func(w *world, a *fakeAPI) {
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
