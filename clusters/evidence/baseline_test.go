// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/netip"
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// TestDualStackRollOut: 13 pods were replaced by 12 while nobody ran. What stands is counted as
// the member's pods are, whatever number of addresses each has: a start takes the roll-out whole.
func TestDualStackRollOut(t *testing.T) {
	web := syncer.Key{Namespace: namespace, Name: "web"}
	ports := []syncer.ServicePort{{Protocol: syncer.TCP, Port: 80, Target: syncer.TargetPort{Number: 80}}}
	for _, families := range [][]syncer.Family{{syncer.IPv4}, {syncer.IPv4, syncer.IPv6}} {
		t.Run(fmt.Sprint(families), func(t *testing.T) {
			pods := func(name string, n, first int) (all []podVersion) {
				for i := range n {
					p := syncer.Pod{Key: syncer.Key{Namespace: namespace, Name: fmt.Sprint(name, i)}, UID: fmt.Sprint(name, i), Labels: map[string]string{"app": "web"}, Ready: true}
					for _, of := range []string{"10.0.0.%d", "fd00::%x"} {
						p.IPs = append(p.IPs, syncer.PodIP{Addr: netip.MustParseAddr(fmt.Sprintf(of, first+i))})
					}
					all = append(all, podVersion{Object: p, RV: 10})
				}
				return all
			}
			stands := Standing{Sources: []syncer.Key{web}}
			for _, p := range pods("old-", 13, 1) {
				for _, ip := range p.Object.IPs[:len(families)] {
					stands.Endpoints = append(stands.Endpoints, syncer.Endpoint{Addr: ip.Addr, Ready: true, Target: syncer.TargetRef{Kind: "Pod", Key: p.Object.Key, UID: p.Object.UID}})
				}
			}
			s := New(start, Config{Limits: Limits{Lists: true, MinEndpoints: 10, Percent: 15}, Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }}, 1)
			for _, e := range []Event{Connected{}, Baseline{Replicas: map[syncer.Key]Standing{web: stands}},
				Listed[syncer.Service]{Items: []serviceVersion{{RV: 10, Object: syncer.Service{Key: web, UID: "web", Selector: map[string]string{"app": "web"}, IPFamilies: families, Ports: ports}}}, Revision: 10},
				Listed[syncer.Pod]{Items: pods("new-", 12, 101), Revision: 10}, Listed[store.Node]{Revision: 10}} {
				s.Step(start, e)
			}
			if left := s.Share(web); len(s.Holds()) > 0 || s.Keeps() || left.Unseen {
				t.Errorf("what stood stays, held: %v", s.Holds())
			}
		})
	}
}
