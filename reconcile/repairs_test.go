// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

func TestHandMadeChangesAreRepaired(t *testing.T) {
	tests := []struct {
		name   string
		damage func(g *ground)
	}{
		{"Endpoints edited", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.Subsets = nil })
		}},
		{"Endpoints deleted", func(g *ground) { apitest.Remove[*corev1.Endpoints](g.t, g.server, "shop", "web") }},
		{"slice edited", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", g.sliceName("a"), func(es *discoveryv1.EndpointSlice) {
				es.Endpoints[0].Conditions.Serving = nil
			})
		}},
		{"slice deleted", func(g *ground) {
			apitest.Remove[*discoveryv1.EndpointSlice](g.t, g.server, "shop", g.sliceName("a"))
		}},
		{"slice tied to another Service", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", g.sliceName("a"), func(es *discoveryv1.EndpointSlice) {
				es.Labels[plan.LabelServiceName] = "elsewhere"
			})
		}},
		{"slice tied to no Service", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", g.sliceName("a"), func(es *discoveryv1.EndpointSlice) {
				delete(es.Labels, plan.LabelServiceName)
			})
		}},
		{"selector added", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", "web", func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"a": "b"} })
		}},
		{"clusterIP given", func(g *ground) {
			apitest.Edit(g.t, g.server, "shop", "web", func(svc *corev1.Service) { svc.Spec.ClusterIP = "172.16.0.1" })
		}},
		{"Service deleted with its slices and Endpoints", func(g *ground) {
			slice := g.sliceName("a")
			apitest.Remove[*corev1.Service](g.t, g.server, "shop", "web")
			apitest.Remove[*corev1.Endpoints](g.t, g.server, "shop", "web")
			apitest.Remove[*discoveryv1.EndpointSlice](g.t, g.server, "shop", slice)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := running(t)
			test.damage(g)
			g.wait("everything is as it was", func() bool {
				endpoints, sliced := g.addresses(web)
				svc, ok := apitest.Get[*corev1.Service](g.server, "shop", "web")
				return ok && svc.Spec.Selector == nil && svc.Spec.ClusterIP == corev1.ClusterIPNone && len(endpoints) == 1 && len(sliced) == 1 &&
					truth(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")[0].Endpoints[0].Conditions.Serving)
			})
			g.settle()
			g.expect(web, "10.0.0.1")
			if n := len(apitest.List[*discoveryv1.EndpointSlice](g.server, "shop")); n != 1 {
				t.Errorf("%d slices stand, want 1", n)
			}
			g.writes()
			g.rec.Resync("", "resync")
			g.settle()
			g.expectWrites()
		})
	}
}

func TestFightIsSlowedAndReported(t *testing.T) {
	g := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	var rounds atomic.Int32
	var adversary sync.WaitGroup
	adversary.Go(func() {
		for ctx.Err() == nil {
			changed := g.server.Changed()
			if ep, ok := apitest.Get[*corev1.Endpoints](g.server, "shop", "web"); ok && len(ep.Subsets) > 0 {
				rounds.Add(1)
				apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.Subsets = nil })
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	})
	g.wait("the fight is reported", func() bool {
		return slices.ContainsFunc(g.seen.trouble(web).Held, func(h metrics.HeldChange) bool { return h.Reason == "repair_fight" })
	})
	if n := rounds.Load(); n > 5+3 { // five in a minute are put back at once
		t.Errorf("%d rounds before it was slowed", n)
	}
	// What a member changes is not held up.
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.7", true))
	g.wait("the change is written", func() bool { _, sliced := g.addresses(web); return slices.Equal(sliced, []string{"10.0.0.7"}) })
	cancel()
	adversary.Wait()
}

func TestRestoredStoreIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.start()
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		snapshot := g.server.Snapshot()
		for _, ip := range []string{"10.0.0.2", "10.0.0.3"} {
			g.set("a", service(web, 1, 8080), pod(web, ip, true))
			g.settle()
		}
		// No Service has changed, as on most days.
		g.server.Restore(snapshot, true)
		g.wait("the endpoints are as the member demands", func() bool {
			ready, sliced := g.addresses(web)
			return slices.Equal(ready, []string{"10.0.0.3"}) && slices.Equal(sliced, ready)
		})
		g.settle()
		snapshot = g.server.Snapshot()
		other := syncer.Key{Namespace: "shop", Name: "other"}
		g.set("a", service(other, 1, 8080), pod(other, "10.0.0.9", true))
		g.settle()
		for _, quiet := range []bool{true, false} {
			g.server.Restore(snapshot, quiet)
			g.wait("everything is as the members demand", func() bool {
				first, firstSliced := g.addresses(web)
				second, secondSliced := g.addresses(other)
				return slices.Equal(first, []string{"10.0.0.3"}) && slices.Equal(firstSliced, first) &&
					slices.Equal(second, []string{"10.0.0.9"}) && slices.Equal(secondSliced, second)
			})
			g.settle()
		}
	})
}

// A backup that is a moment old: before anybody looks, the restored store has made as
// many revisions as were lost, and no watch tells what is missing.
func TestRestoredStoreThatHasCaughtUpIsNoticed(t *testing.T) {
	other, third := syncer.Key{Namespace: "shop", Name: "other"}, syncer.Key{Namespace: "shop", Name: "third"}
	change := func(g *ground) { g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true)) }
	deletion := func(g *ground) { g.unset("a", web) }
	creation := func(g *ground) { g.set("a", service(other, 1, 8080), pod(other, "10.0.0.9", true)) }
	for _, c := range []struct {
		name string
		lose []func(g *ground)
	}{
		{"a change", []func(*ground){change}},
		{"a deletion", []func(*ground){deletion}},
		{"what was made", []func(*ground){creation}},
		{"a change, and what was made", []func(*ground){change, creation}},
		{"what was made, and a deletion", []func(*ground){creation, deletion}},
	} {
		for _, more := range []struct {
			name string
			// unshown: no stream shows what is lost; frozen: the streams that are open show
			// nothing of the restored store; written: we write to it; dropped: then they end.
			unshown, frozen, written, dropped bool
		}{
			{name: "the streams end"},
			{name: "the streams end, and more is written meanwhile", written: true},
			{name: "the streams end when more is written", frozen: true, written: true, dropped: true},
			{name: "the streams are frozen, and more is written", frozen: true, written: true},
			{name: "it was known by answers alone", unshown: true, frozen: true, written: true, dropped: true},
		} {
			t.Run(c.name+", "+more.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGroundOn(t, apitest.NewInMemory(t), "a")
					g.start()
					g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
					g.settle()
					snapshot := g.server.Snapshot()
					if more.unshown {
						synctest.Wait()
						g.server.FreezeStreams()
					}
					for _, lose := range c.lose {
						lose(g)
						g.settle()
					}
					synctest.Wait() // the watches have shown it
					want, wantSliced := g.addresses(web)
					others, othersSliced := g.addresses(other)
					if more.frozen {
						g.server.FreezeStreams()
					}
					g.server.Restore(snapshot, more.frozen)
					for i := range 50 {
						g.server.Create(t, &corev1.Service{
							ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "foreign-" + number3(i)},
							Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
						})
					}
					if more.written {
						g.set("a", service(third, 1, 8080), pod(third, "10.0.0.8", true))
					}
					if more.dropped {
						g.settle()
						g.server.DropWatches()
					}
					g.wait("all is as it was", func() bool {
						ready, sliced := g.addresses(web)
						otherReady, otherSliced := g.addresses(other)
						return slices.Equal(ready, want) && slices.Equal(sliced, wantSliced) && slices.Equal(otherReady, others) && slices.Equal(otherSliced, othersSliced)
					})
				})
			})
		}
	}
}

func TestForeignMetadataSurvives(t *testing.T) {
	g := running(t)
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "x"}
	apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) {
		ep.Finalizers, ep.OwnerReferences = []string{"example.com/theirs"}, []metav1.OwnerReference{owner}
	})
	apitest.Edit(t, g.server, "shop", g.sliceName("a"), func(es *discoveryv1.EndpointSlice) {
		es.OwnerReferences = append(es.OwnerReferences, owner)
	})
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
	g.settle()
	ep, _ := apitest.Get[*corev1.Endpoints](g.server, "shop", "web")
	es, _ := apitest.Get[*discoveryv1.EndpointSlice](g.server, "shop", g.sliceName("a"))
	if len(ep.Finalizers) != 1 || len(ep.OwnerReferences) != 1 || len(es.OwnerReferences) != 2 {
		t.Errorf("Endpoints %v %v, slice %v", ep.Finalizers, ep.OwnerReferences, es.OwnerReferences)
	}
	// A finalizer keeps the object after its deletion; nothing is created over it.
	g.unset("a", web)
	g.settle()
	g.set("a", service(web, 1, 8080), pod(web, "10.0.0.3", true))
	g.wait("the deletion is waited for", func() bool {
		return slices.ContainsFunc(g.seen.trouble(web).Held, func(h metrics.HeldChange) bool { return h.Reason == string(plan.WaitObjectDeleting) })
	})
	apitest.Remove[*corev1.Endpoints](t, g.server, "shop", "web")
	g.wait("the replica is whole again", func() bool { endpoints, _ := g.addresses(web); return len(endpoints) == 1 })
}

func truth(b *bool) bool { return b != nil && *b }

func TestRepairOnly(t *testing.T) {
	repair, live := record.Cause{Event: cache.EventRepair}, record.Cause{Event: "modified", Live: true}
	for _, test := range []struct {
		causes []record.Cause
		want   bool
	}{{nil, false}, {[]record.Cause{repair}, true}, {[]record.Cause{repair, live}, false}, {[]record.Cause{live}, false}} {
		if got := repairOnly(test.causes); got != test.want {
			t.Errorf("repairOnly(%v) = %v", test.causes, got)
		}
	}
}

// However many repairs there were before: what else asks for the work is not forgotten.
func TestRepairAmongOtherCauses(t *testing.T) {
	q := lanes.New(lanes.Options{Workers: 1})
	for range 40 {
		q.Add(web, lanes.Bulk, record.Cause{Event: cache.EventRepair})
	}
	q.Add(web, lanes.Bulk, record.Cause{Event: "config"})
	item, _ := q.Get(t.Context())
	if repairOnly(item.Causes) || item.Dropped == 0 {
		t.Errorf("a drain counts as a repair: %+v", item.Causes)
	}
	q.Done(web)
}
