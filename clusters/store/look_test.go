// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"
	"time"

	"tributary.dev/tributary/syncer"
)

func TestStatsAndExplain(t *testing.T) {
	w := newWorld(t, Options{Syncer: syncer.Options{HoldSilentNodes: time.Minute}})
	w.serve(aService("web", "web"))
	external := aService("away", "web")
	external.ExternalName = true
	w.serve(external)
	w.serve(handMade("db"))
	w.SetEndpoints(written("db", 1, 1, 2))
	for i, change := range []func(*syncer.Pod){
		func(*syncer.Pod) {},
		func(p *syncer.Pod) { p.Ready = false },
		func(p *syncer.Pod) { p.Ready, p.NodeSilent = false, true },
		func(p *syncer.Pod) { p.Terminating = true },
		func(p *syncer.Pod) { p.Terminal = true },
	} {
		p := aPod(string(rune('a'+i)), "web", byte(100+i))
		change(&p)
		w.pod(p)
	}
	want := Stats{Pods: 5, Replicas: 2, Ready: 4, NotReady: 1, Terminating: 1}
	if got := w.Stats(time.Unix(110, 0)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.Ready, want.Reserve = 3, 1
	if got := w.Stats(time.Unix(1000, 0)); got != want {
		t.Errorf("later %+v, want %+v", got, want)
	}

	service, pods := w.Explain(in("web"), time.Unix(1000, 0))
	if service == nil || len(pods) != 5 {
		t.Fatalf("%+v, %+v", service, pods)
	}
	for i, grade := range []syncer.Grade{syncer.Ready, syncer.NotReady, syncer.Reserve, syncer.NotReady, syncer.NotReady} {
		if p := pods[i]; p.Grade != grade || p.Endpoint != (i < 4) || (p.Why == "") != (i == 0) {
			t.Errorf("%s: %+v", p.Name, p)
		}
	}
	if service, pods := w.Explain(in("away"), w.now); service == nil || pods != nil {
		t.Errorf("one that is not replicated: %+v, %+v", service, pods)
	}
	if service, pods := w.Explain(in("db"), w.now); service == nil || pods != nil {
		t.Errorf("one written by hand: %+v, %+v", service, pods)
	}
	if service, _ := w.Explain(in("none"), w.now); service != nil {
		t.Error("explained what is not there")
	}
}

// TestTrigger: the time of a change stays until something changes again, so that a repeated
// write has it, too; Explain has no side effect.
func TestTrigger(t *testing.T) {
	w := newWorld(t, Options{})
	expect := func(what string, want int64) {
		t.Helper()
		w.Explain(in("web"), w.now)
		for range 2 {
			c, _ := w.Contribution(in("web"), w.now)
			if got := c.Trigger; want == 0 && !got.IsZero() || want != 0 && got.Unix() != want {
				t.Errorf("%s: trigger %v, want %d", what, got, want)
			}
		}
	}
	svc := aService("web", "web")
	svc.Created = 50
	w.serve(svc)
	w.pod(aPod("p1", "web", 60))
	expect("the first time", 50)
	w.pod(aPod("p1", "web", 70))
	w.pod(aPod("p2", "web", 80))
	expect("the earlier of two", 70)
	w.pod(aPod("p3", "web", 90))
	expect("a third pod", 90)
	w.RemovePod(in("p3"))
	expect("a deletion has no time", 0)
	w.pod(aPod("p3", "api", 95))
	expect("a pod of others", 0)
	w.pod(aPod("p3", "web", 95))
	expect("which becomes one", 95)
	w.pod(aPod("p3", "api", 97))
	expect("and is one no longer", 0)
	w.pod(aPod("p1", "web", 65))
	expect("a late heartbeat", 0)
	svc.Labels = map[string]string{"a": "b"}
	w.pod(aPod("p1", "web", 99))
	expect("a pod", 99)
	w.serve(svc)
	expect("and the Service", 0)
	svc.UID, svc.Created = "another", 55
	w.serve(svc)
	expect("another Service", 55)
}
