// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"tributary.dev/tributary/internal/apitest"
	"tributary.dev/tributary/internal/memnet"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/syncer"
)

// Trouble that has stood for long, then something that happens to the process or to the
// ingress cluster, then an address that dies: it is gone within a second, whichever of
// them come together.
func TestDeadAddressesGoInCombinedTrouble(t *testing.T) {
	deny := func(status int, match func(apitest.Request) bool) func(*ground) {
		return func(g *ground) { g.faultWrites(1<<30, apitest.Fault{Status: status}, match) }
	}
	troubles := map[string]func(*ground){
		"none":                               func(*ground) {},
		"a webhook on Services is down":      deny(http.StatusInternalServerError, of("services")),
		"no right to write Services":         deny(http.StatusForbidden, of("services")),
		"nothing may be made":                deny(http.StatusForbidden, func(r apitest.Request) bool { return r.Verb == "create" }),
		"a quota on slices of b":             func(g *ground) { g.server.Refuse(quota("b")) },
		"a webhook denies web's Service":     func(g *ground) { g.server.Refuse(refuseLabel) },
		"somebody keeps emptying Endpoints":  func(g *ground) { spoilFor(g, 20) },
		"the watch of slices shows nothing":  func(g *ground) { g.server.FreezeWatches("endpointslices") },
		"the watch of Services shows no end": func(g *ground) { g.server.FreezeWatches("services") },
	}
	// Each has the address die when its time has come: seen live, or by who comes later.
	live := func(g *ground, svc *syncer.Service) { g.set("a", svc, pod(web, "10.0.0.2", true)) }
	unseen := func(g *ground, svc *syncer.Service) { g.source.set("a", svc, pod(web, "10.0.0.2", true)) }
	events := map[string]func(*ground, *syncer.Service){
		"minutes pass": func(g *ground, svc *syncer.Service) {
			time.Sleep(3 * time.Minute)
			live(g, svc)
		},
		"a restart": func(g *ground, svc *syncer.Service) {
			g.stop()
			g.rec = New(g.options)
			g.launch()
			live(g, svc)
		},
		"nobody is there": func(g *ground, svc *syncer.Service) {
			g.stop()
			unseen(g, svc)
			g.rec = New(g.options)
			g.launch()
		},
		"a takeover": func(g *ground, svc *syncer.Service) {
			standby := g.follow()
			time.Sleep(time.Minute)
			g.stop()
			unseen(g, svc)
			standby.Dirty(web, lanes.Removal, liveCause("a", web))
			time.Sleep(time.Second)
			leading, end := context.WithCancel(g.t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); standby.Lead(leading) }()
			g.t.Cleanup(func() { end(); <-ended })
		},
		"an outage": func(g *ground, svc *syncer.Service) {
			g.server.Lead(memnet.Nobody)
			time.Sleep(time.Minute)
			live(g, svc)
			time.Sleep(time.Minute)
			g.server.Lead(memnet.Open)
			time.Sleep(time.Second) // it is asked so often
		},
		"an edit of the configuration": func(g *ground, svc *syncer.Service) {
			s := g.source.settings
			s.MaxEndpointsPerSlice = 2
			g.source.setSettings(s)
			unseen(g, svc)
			g.rec.Resync("", "config")
		},
	}
	for trouble, begin := range troubles {
		for event, happen := range events {
			t.Run(trouble+", "+event, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGroundOn(t, apitest.NewInMemory(t), "a", "b")
					g.options.Queue.Backoff.Max = 30 * time.Second
					g.start()
					g.set("a", service(web, 1, 8080), pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
					g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true))
					g.settle()
					begin(g)
					svc := service(web, 1, 8080)
					svc.Labels = map[string]string{"odd": "x"}
					svc.Ports = append(svc.Ports, syncer.ServicePort{Name: "more", Protocol: syncer.TCP, Port: 81, Target: syncer.TargetPort{Name: "none"}})
					g.set("a", svc, pod(web, "10.0.0.1", true), pod(web, "10.0.0.2", true))
					g.set("b", service(web, 2, 8080), pod(web, "10.1.0.1", true), pod(web, "10.1.0.2", true))
					time.Sleep(time.Minute)
					happen(g, svc)
					time.Sleep(time.Second)
					endpoints, sliced := g.addresses(web)
					if slices.Contains(endpoints, "10.0.0.1") || slices.Contains(sliced, "10.0.0.1") || !slices.Contains(sliced, "10.0.0.2") {
						t.Errorf("after a second there are Endpoints %v and slices %v", endpoints, sliced)
					}
				})
			})
		}
	}
}

// spoilFor empties Endpoints by hand, as often as they are put back for a while.
func spoilFor(g *ground, n int) {
	go func() {
		for range n {
			apitest.Edit(g.t, g.server, "shop", "web", func(ep *corev1.Endpoints) { ep.Subsets = nil })
			time.Sleep(2 * time.Second)
		}
	}()
}
