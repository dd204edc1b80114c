// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

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
