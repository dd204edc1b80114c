// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/syncer"
)

// standing makes the ingress cluster hold endpoints of the member from before: those
// of as many of the pods that fill makes.
func standing(web, api, db int) func(*Options) {
	return func(o *Options) {
		o.Standing = func(string) map[syncer.Key]Standing {
			all := map[syncer.Key]Standing{}
			for app, pods := range map[string][2]int{"web": {0, web}, "api": {20, api}, "db": {32, db}} {
				key := syncer.Key{Namespace: "shop", Name: app}
				s := Standing{Sources: []syncer.Key{key}, Ready: map[string]netip.Addr{}}
				for n := pods[0] + 1; n <= pods[0]+pods[1]; n++ {
					s.Ready[fmt.Sprintf("%s-%d-uid", app, n)] = netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", n))
				}
				all[key] = s
			}
			return all
		}
	}
}

// stand makes so many endpoints of no pod stand of Services of the same name.
func stand(ready map[syncer.Key]int) func(string) map[syncer.Key]Standing {
	return func(string) map[syncer.Key]Standing {
		all := map[syncer.Key]Standing{}
		for key, n := range ready {
			s := Standing{Sources: []syncer.Key{key}, Ready: map[string]netip.Addr{}}
			for i := range n {
				addr := netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
				s.Ready[addr.String()] = addr
			}
			all[key] = s
		}
		return all
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
		"a Service is gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) { a.remove("services", "shop", "api") }, want: "confirmed"},
		"a few are gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name) <= 10 })
		}, want: "synced"},
		"half is gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name)%2 == 0 })
		}, want: "confirmed"},
		"most is gone": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name)%4 != 0 })
		}, want: "confirmed"},
		"no pod of many is listed": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }, mend: fill, want: "held"},
		"no pod of few is listed":  {prepare: standing(2, 1, 1), spoil: func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }, want: "confirmed"},
		"all pods are others, and not ready": {prepare: standing(20, 12, 1), spoil: func(a *fakeAPI) {
			a.drop("pods", func(string) bool { return true })
			for n := 1; n <= 33; n++ {
				a.put(replaced(notReady(newPod("shop", appOf(n), n))))
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
				w.wantFirstLists(c.want)
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

// What the configuration moves, or takes away, while nobody is running is no loss, and
// what went from its Services meanwhile is one, wherever it would have gone.
func TestFirstListsAfterTheConfigurationMovedReplicas(t *testing.T) {
	half := func(a *fakeAPI) { a.drop("pods", func(name string) bool { return numberOf(name)%4 != 0 }) }
	none := func(a *fakeAPI) { a.drop("pods", func(string) bool { return true }) }
	separate := func(c *config.Cluster) { c.Mode = config.ModeSeparate }
	prefix := func(c *config.Cluster) { c.Namespaces.Prefix = "x-" }
	for name, c := range map[string]struct {
		edit  func(*config.Cluster)
		spoil func(a *fakeAPI)
		want  string // "synced", "confirmed", "held"
	}{
		"mode":                       {edit: separate, want: "synced"},
		"prefix":                     {edit: prefix, want: "synced"},
		"rename":                     {edit: func(c *config.Cluster) { c.Namespaces.Rename = map[string]string{"shop": "store"} }, want: "synced"},
		"narrower include":           {edit: func(c *config.Cluster) { c.Namespaces.Include = []string{"pay"} }, want: "synced"},
		"exclude":                    {edit: func(c *config.Cluster) { c.Namespaces.Exclude = []string{"shop"} }, want: "synced"},
		"selector":                   {edit: func(c *config.Cluster) { c.ServiceSelector = "public=yes" }, want: "synced"},
		"prefix, and most is gone":   {edit: prefix, spoil: half, want: "confirmed"},
		"prefix, and all is gone":    {edit: prefix, spoil: none, want: "held"},
		"mode, and all is gone":      {edit: separate, spoil: none, want: "held"},
		"prefix, Services are gone":  {edit: prefix, spoil: func(a *fakeAPI) { a.drop("services", func(string) bool { return true }) }, want: "held"},
		"exclude, and all is gone":   {edit: func(c *config.Cluster) { c.Namespaces.Exclude = []string{"shop"} }, spoil: none, want: "synced"},
		"annotations keep them back": {spoil: keepBack, want: "synced"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, standing(20, 12, 1), func(w *world) {
				w.tweak = c.edit
				a := w.api("uid-a")
				fill(a)
				if c.spoil != nil {
					c.spoil(a)
				}
				w.reach("a", a.config(""), "1")
				w.wantFirstLists(c.want)
			})
		})
	}
}

// keepBack makes Services say that they are not to be replicated.
func keepBack(a *fakeAPI) {
	for _, app := range []string{"web", "api", "db"} {
		svc := newService("shop", app)
		svc.Annotations = map[string]string{config.AnnotationReplicate: "false"}
		a.put(svc)
	}
}

// wantFirstLists wants the first lists "synced" at once, "confirmed" by a second look,
// or "held".
func (w *world) wantFirstLists(want string) {
	w.t.Helper()
	synced := func() bool { return w.set.Members()[0].Synced }
	w.pass(2 * time.Second)
	if got := synced(); got != (want == "synced") {
		w.t.Fatalf("synced at once is %v, want %s", got, want)
	}
	w.pass(10 * time.Second)
	if got := synced(); got != (want != "held") {
		w.t.Fatalf("synced after a second look is %v, want %s", got, want)
	}
}
