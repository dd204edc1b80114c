// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/syncer"
)

// A stream that brings nothing any more is found out within 30 s, although nobody ends it.
func TestFrozenStreamIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.start()
		g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true))
		g.settle()
		g.server.FreezeStreams()
		apitest.Edit(t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.Subsets[0].Addresses[0].IP = "10.6.6.6" })
		begun := time.Now()
		time.Sleep(30 * time.Second)
		if ready, _ := g.addresses(web); !slices.Equal(ready, []string{"10.0.0.1"}) {
			t.Errorf("after %v the Endpoints hold %v", time.Since(begun), ready)
		}
		g.stop()
	})
}

// With namespaces that are named, rights in each are enough: nothing is read elsewhere.
func TestConfinedToNamespaces(t *testing.T) {
	g := newGround(t, "a")
	for _, name := range []string{"shop", "depot", "other"} {
		g.server.Create(t, namespace(name, corev1.NamespaceActive))
	}
	g.options.Only = []string{"depot", "shop"}
	forbidden := make(chan apitest.Request, 100)
	g.server.Intercept(func(r apitest.Request) *apitest.Fault {
		if r.UserAgent != product || slices.Contains(g.options.Only, r.Namespace) || r.Resource == "version" || r.Name == "kube-system" {
			return nil
		}
		forbidden <- r
		return &apitest.Fault{Status: 403}
	})
	g.start()
	stock, theirs := syncer.Key{Namespace: "depot", Name: "stock"}, syncer.Key{Namespace: "other", Name: "theirs"}
	for i, key := range []syncer.Key{web, stock, theirs} {
		g.set("a", service(key, 1, 8080), pod(key, "10.0.0."+string('1'+rune(i)), true))
	}
	g.settle()
	g.expect(web, "10.0.0.1")
	g.expect(stock, "10.0.0.2")
	g.expect(theirs)
	if err := g.rec.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
	apitest.Edit(t, g.server, "depot", "stock", func(ep *corev1.Endpoints) { ep.Subsets = nil })
	g.wait("the edit is repaired", func() bool { ready, _ := g.addresses(stock); return len(ready) == 1 })
	g.stop()
	close(forbidden)
	for r := range forbidden {
		if r.Resource != "namespaces" || r.Verb == "create" {
			t.Errorf("asked to %s %s in %q", r.Verb, r.Resource, r.Namespace)
		}
	}
}

// A named namespace whose Role is gone, or that is gone itself, concerns itself alone: who
// starts beside it takes away what must go elsewhere, and makes nothing where it sees nothing.
func TestNamespaceThatMayNotBeReadConcernsItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroundOn(t, apitest.NewInMemory(t), "a")
		g.options.Only = []string{"depot", "shop"}
		stock := syncer.Key{Namespace: "depot", Name: "stock"}
		for _, name := range g.options.Only {
			g.server.Create(t, namespace(name, corev1.NamespaceActive))
		}
		var denied atomic.Value
		denied.Store("")
		g.server.Allow(func(r apitest.Request) bool { return r.Namespace != "" && r.Namespace != denied.Load() })
		g.start()
		for _, key := range []syncer.Key{web, stock} {
			g.set("a", service(key, 1, 8080), pod(key, "10.0.0.1", true), pod(key, "10.0.0.2", true))
		}
		g.settle()
		g.stop()

		denied.Store("depot")
		g.source.set("a", service(web, 1, 8080), pod(web, "10.0.0.2", true))
		g.writes()
		g.start()
		time.Sleep(3 * time.Second)
		g.expect(web, "10.0.0.2")
		if err := g.rec.Trouble(); err != nil {
			t.Errorf("trouble because of one namespace: %v", err)
		}
		if n := len(g.writes()); n != 2 {
			t.Errorf("%d writes, want Endpoints and a slice of shop/web", n)
		}
		g.source.set("a", service(stock, 1, 8080), pod(stock, "10.0.0.2", true))
		denied.Store("")
		time.Sleep(time.Minute)
		g.expect(stock, "10.0.0.2")
		g.stop()
	})
}
