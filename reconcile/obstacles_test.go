// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/syncer"
)

// Somebody lets a slice of ours name another replica: that one gives it up, and the first has its endpoints.
func TestSliceGivenToAnother(t *testing.T) {
	for _, other := range []string{"shop/nobody", "shop/other", "shop/empty"} {
		t.Run(other, func(t *testing.T) {
			play(t, func(g *ground) {
				g.shares[syncer.Key{Namespace: "shop", Name: "nobody"}] = map[string]syncer.Share{"a": {Member: "a", Listed: true}}
				g.set(syncer.Key{Namespace: "shop", Name: "other"}, "a", "8,9")
				g.set(syncer.Key{Namespace: "shop", Name: "empty"}, "a", "")
				g.set(web, "a", "1,2")
				g.expect(web, "1,2", 50*time.Millisecond)
				for _, s := range apitest.List[*discoveryv1.EndpointSlice](g.server, "shop") {
					if s.Labels[discoveryv1.LabelServiceName] == "web" {
						apitest.Edit(t, g.server, "shop", s.Name, func(s *discoveryv1.EndpointSlice) { s.Annotations[syncer.AnnotationReplica] = other })
					}
				}
				g.set(web, "a", "1")
				g.pass(40 * time.Second)
				g.expect(web, "1", 0)
			})
		})
	}
}

// A Service that its member deletes and makes again is written at once, however often.
func TestServiceMadeAgain(t *testing.T) {
	play(t, func(g *ground) {
		for i := range 8 {
			g.set(web, "a", "1,2")
			began := time.Now()
			g.expect(web, "1,2", 30*time.Second)
			if time.Since(began) > time.Second {
				t.Errorf("round %d: written after %s", i, time.Since(began))
			}
			g.pass(2 * time.Second)
			g.set(web, "a", "-")
			g.expect(web, "-", 30*time.Second)
			g.pass(2 * time.Second)
		}
	})
}

// A Service gets a port more, which the server refuses, and the pods are replaced: those of now serve the ports that the Service has.
func TestReleaseWhileTheServiceIsRefused(t *testing.T) {
	play(t, func(g *ground) {
		set := func(text string, more bool) {
			given := contribution(web, text, 8080)
			if more {
				given.Service.Ports = append(given.Service.Ports, syncer.ServicePort{Name: "more", Protocol: syncer.TCP, Port: 81, Target: syncer.TargetPort{Number: 9090}})
				for i := range given.Endpoints {
					given.Endpoints[i].Ports = append(given.Endpoints[i].Ports, syncer.Port{Name: "more", Protocol: syncer.TCP, Number: 9090})
				}
			}
			g.mu.Lock()
			g.shares[web] = map[string]syncer.Share{"a": {Member: "a", Listed: true, Given: given}}
			g.mu.Unlock()
			g.compareAll()
			g.pass(time.Second)
		}
		set("1,2", false)
		g.expect(web, "1,2", time.Second)
		g.fault(func(r apitest.Request) *apitest.Fault {
			if r.Resource == "services" {
				return &apitest.Fault{Status: 403}
			}
			return nil
		})
		set("1,2", true)
		set("2,3", true)
		set("3,4", true)
		g.expect(web, "3,4", 10*time.Second)
		g.fault(nil)
		g.expect(web, "3,4", time.Minute)
		g.pass(time.Minute)
		g.settled()
	})
}
