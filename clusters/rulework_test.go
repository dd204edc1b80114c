// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// absentAll takes all pods away.
type absentAll struct{}

func (absentAll) Decide(_ store.Subject, held func(string) bool) []store.Decision {
	all := []store.Decision{{Rule: "all", Then: store.Absent}}
	if held != nil && held("all") {
		all = append(all, store.Decision{Then: store.Upstream})
	}
	return all
}
func (absentAll) ReadsNode() bool    { return false }
func (absentAll) ReadsService() bool { return false }
func (absentAll) Readies() bool      { return false }
func (absentAll) ID() string         { return "all" }

// TestNoEventWaitsForAnEditOfRules: whoever brings an edit, or an event, does a piece of its
// work at most; the rest is the ticker's, at once.
func TestNoEventWaitsForAnEditOfRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := evidence.Config{Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }}
		s := newShell(cfg, 1, func(evidence.Effects, time.Time) {}, func(store.Decider, []store.Decider) (since store.KeptSince) { return since })
		web := syncer.Key{Namespace: "shop", Name: "web"}
		pods := evidence.Listed[syncer.Pod]{Revision: 10}
		for i := range 3000 {
			pods.Items = append(pods.Items, store.Versioned[syncer.Pod]{RV: 10, Object: syncer.Pod{
				Key: syncer.Key{Namespace: "shop", Name: fmt.Sprint("web-", i)}, UID: fmt.Sprint(i), Labels: map[string]string{"app": "web"}, Ready: true,
				IPs: []syncer.PodIP{{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}},
			}})
		}
		services := evidence.Listed[syncer.Service]{Revision: 10, Items: []store.Versioned[syncer.Service]{{RV: 10, Object: syncer.Service{
			Key: web, UID: "web", Selector: map[string]string{"app": "web"}, ClusterIP: "None",
		}}}}
		gone := evidence.Gone[syncer.Pod]{Versioned: pods.Items[7]}
		gone.RV = 11
		for _, e := range []evidence.Event{evidence.Connected{}, evidence.Listed[store.Node]{Revision: 10}, services, pods} {
			s.step(e, time.Now())
		}
		endpoints := func() int {
			share, _ := s.share(web)
			return len(store.Peek(share.Inputs)[0].Endpoints)
		}
		edit := cfg
		edit.Decider = absentAll{}
		s.step(evidence.Configured{Config: edit}, time.Now())
		s.step(&gone, time.Now())
		if n := endpoints(); n != 2999 {
			t.Fatalf("of 3000 endpoints, one of which is gone, there are %d when the edit has come", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.tick(ctx)
		synctest.Wait()
		if n := endpoints(); n != 0 {
			t.Errorf("%d endpoints are left when all is done", n)
		}
	})
}
