// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

// The way to a member hangs, and has not for long enough to be noticed. Who led until now
// saw by its own way that a pod died, and wrote it: it does not come back.
func TestMemberThatDoesNotAnswerBeginsAnewWhenAnotherLeads(t *testing.T) {
	web := syncer.Key{Namespace: "shop", Name: "web"}
	var stands map[syncer.Key]Standing
	standing := func(string) map[syncer.Key]Standing { return stands }
	inWorld(t, func(o *Options) { o.Standing = standing }, func(w *world) {
		a, b := w.api("uid-a"), w.api("uid-b")
		s := Standing{Sources: []syncer.Key{web}}
		for _, api := range []*fakeAPI{a, b} {
			api.put(newService("shop", "web"))
			for n := 1; n <= 3; n++ {
				p := newPod("shop", "web", n)
				if api.put(p); api == a && n != 2 {
					s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: netip.MustParseAddr(p.Status.PodIP), Ready: true, Serving: true,
						Target: syncer.TargetRef{Kind: "Pod", Key: syncer.Key{Namespace: "shop", Name: p.Name}, UID: p.Name + "-uid"}})
				}
			}
		}
		stands = map[syncer.Key]Standing{web: s}
		w.reach("a", a.config(""), "1")
		w.reach("b", b.config(""), "1")
		w.pass(time.Minute)
		if anew := w.set.Lead(time.Now(), standing); len(anew) != 0 {
			t.Fatalf("%v begin anew though all answer", anew)
		}
		a.listener.Freeze()
		a.remove("pods", "shop", "web-2")
		w.pass(time.Second)
		w.wantState("a", Live, ReasonNone)
		began := time.Now()
		if anew := w.set.Lead(began, standing); !slices.Equal(anew, []string{"a"}) {
			t.Errorf("%v begin anew", anew)
		}
		if took := time.Since(began); took > time.Second/2 {
			t.Errorf("it took %v to find out", took)
		}
		if seen := w.set.Peek(web); seen.Members[0].Synced || len(seen.Shares) != 1 || seen.Shares[0].Cluster != "b" {
			t.Errorf("%+v, want nothing of a: what stands of it is better", seen)
		}
		a.listener.Thaw()
		w.pass(time.Minute)
		w.wantState("a", Live, ReasonNone)
		w.wantAddresses("shop", "web", "a 10.1.0.1", "a 10.1.0.3", "b 10.1.0.1", "b 10.1.0.2", "b 10.1.0.3")
	})
}
