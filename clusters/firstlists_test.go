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

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/evidence"
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
				s := Standing{Sources: []syncer.Key{key}}
				for n := pods[0] + 1; n <= pods[0]+pods[1]; n++ {
					pod := syncer.Key{Namespace: "shop", Name: fmt.Sprintf("%s-%d", app, n)}
					s.Endpoints = append(s.Endpoints, syncer.Endpoint{
						Addr: netip.MustParseAddr(fmt.Sprintf("10.1.0.%d", n)), Ready: true, Serving: true,
						Target: syncer.TargetRef{Kind: "Pod", Key: pod, UID: pod.Name + "-uid"},
					})
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
			s := Standing{Sources: []syncer.Key{key}}
			if key == hand {
				s.HandWritten = map[syncer.Key][]string{hand: {"Endpoints", "hand-1"}}
			}
			for i := range n {
				addr := netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
				s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: addr, Ready: true, Serving: true})
			}
			all[key] = s
		}
		return all
	}
}

func TestFirstLists(t *testing.T) {
	all := func(string) bool { return true }
	for name, c := range map[string]struct {
		stands func(*Options)
		spoil  func(a *fakeAPI)
		// ready are web, api and db two seconds later, late ten seconds after that.
		ready, late [3]int
		holds       []string // late
	}{
		"as before":         {ready: [3]int{20, 12, 1}},
		"a Service is gone": {spoil: func(a *fakeAPI) { a.remove("services", "shop", "api") }, ready: [3]int{20, 0, 1}},
		"a few are gone": {spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name) <= 3 })
		}, ready: [3]int{17, 12, 1}},
		"half is gone": {spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name)%2 == 0 })
		}, ready: [3]int{10, 6, 1}},
		"all pods are gone": {spoil: func(a *fakeAPI) { a.drop("pods", all) }},
		"all pods are gone, and may not be asked for": {spoil: func(a *fakeAPI) {
			a.drop("pods", all)
			a.refuse("pods")
		}, ready: [3]int{20, 12, 1}, late: [3]int{20, 12, 1}, holds: []string{"shop/api first_list_shrank", "shop/db first_list_shrank", "shop/web first_list_shrank"}},
		"a third is gone, and may not be asked for": {spoil: func(a *fakeAPI) {
			a.drop("pods", func(name string) bool { return numberOf(name)%3 == 0 })
			a.refuse("pods")
		}, ready: [3]int{20, 12, 1}, late: [3]int{14, 8, 0}},
		"the list lies": {spoil: func(a *fakeAPI) { a.hide("pods", all) },
			ready: [3]int{20, 12, 1}, late: [3]int{20, 12, 1},
			holds: []string{"shop/api list_shrank", "shop/db list_shrank", "shop/web list_shrank"}},
		"all pods are others, and not ready": {spoil: func(a *fakeAPI) {
			a.drop("pods", all)
			for n := 1; n <= 33; n++ {
				a.put(replaced(notReady(newPod("shop", appOf(n), n))))
			}
		}},
		"it never had any": {stands: func(*Options) {}, spoil: func(a *fakeAPI) { a.drop("pods", all) }},
	} {
		t.Run(name, func(t *testing.T) {
			stands := c.stands
			if stands == nil {
				stands = standing(20, 12, 1)
			}
			inWorld(t, stands, func(w *world) {
				a := w.api("uid-a")
				fill(a)
				if c.spoil != nil {
					c.spoil(a)
				}
				w.reach("a", a.config(""), "1")
				w.pass(2 * time.Second)
				if !w.set.Members()[0].Synced {
					t.Fatal("a start waits")
				}
				w.wantReady(c.ready[0], c.ready[1], c.ready[2])
				if c.late == [3]int{} {
					c.late = c.ready
				}
				w.pass(10 * time.Second)
				w.wantReady(c.late[0], c.late[1], c.late[2])
				w.wantHolds(c.holds...)
			})
		})
	}
}

func TestFirstListsAreReleasedByHand(t *testing.T) {
	inWorld(t, standing(20, 12, 1), func(w *world) {
		a := w.api("uid-a")
		a.refuse("pods", "services")
		a.put(newService("shop", "web"))
		w.reach("a", a.config(""), "1")
		w.pass(time.Minute)
		w.wantState("a", Live, evidence.ReasonChangesHeld)
		if got, ok := w.set.Release("a", nil); !ok || got.Standing == 0 {
			t.Errorf("released %+v", got)
		}
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		w.wantReady(0, 0, 0)
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
		want  string // "synced", "settled"
	}{
		"mode":                       {edit: separate, want: "synced"},
		"prefix":                     {edit: prefix, want: "synced"},
		"rename":                     {edit: func(c *config.Cluster) { c.Namespaces.Rename = map[string]string{"shop": "store"} }, want: "synced"},
		"narrower include":           {edit: func(c *config.Cluster) { c.Namespaces.Include = []string{"pay"} }, want: "synced"},
		"exclude":                    {edit: func(c *config.Cluster) { c.Namespaces.Exclude = []string{"shop"} }, want: "synced"},
		"selector":                   {edit: func(c *config.Cluster) { c.ServiceSelector = "public=yes" }, want: "synced"},
		"prefix, and most is gone":   {edit: prefix, spoil: half, want: "settled"},
		"prefix, and all is gone":    {edit: prefix, spoil: none, want: "settled"},
		"mode, and all is gone":      {edit: separate, spoil: none, want: "settled"},
		"prefix, Services are gone":  {edit: prefix, spoil: func(a *fakeAPI) { a.drop("services", func(string) bool { return true }) }, want: "settled"},
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

// wantFirstLists wants a start that needs to ask for nothing ("synced"), or that has
// asked for what was missing ("settled").
func (w *world) wantFirstLists(want string) {
	w.t.Helper()
	w.pass(2 * time.Second)
	if !w.set.Members()[0].Synced {
		w.t.Fatal("a start waits")
	}
	w.wantState("a", Live, ReasonNone)
	w.wantHolds()
	asked := slices.ContainsFunc(w.sink.take(), func(told string) bool { return strings.HasSuffix(told, "asked") })
	if asked != (want == "settled") {
		w.t.Errorf("asked is %v, want %s", asked, want)
	}
}
