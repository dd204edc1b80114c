// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// falls is a group of pods of a member that turn not ready, and the replicas that they are in.
type falls struct {
	pods     int
	replicas string // their names, each a letter
	silent   bool
	ago      time.Duration
	alone    bool // no replicated Service selects them
}

// TestMassNotReady: when the pods that turned not ready are too many to be believed. ready are
// the pods of each replica that stay so; one in two replicas counts for the smaller.
func TestMassNotReady(t *testing.T) {
	usual := Limits{MinEndpoints: 10, PanicPercent: 55}
	for name, c := range map[string]struct {
		limits Limits
		ready  map[string]int
		falls  []falls
		want   bool
	}{
		"nobody fell":                                       {limits: usual, ready: map[string]int{"a": 10}},
		"most of two Services":                              {limits: usual, ready: map[string]int{"a": 3, "b": 3}, falls: []falls{{pods: 7, replicas: "a"}, {pods: 7, replicas: "b"}}, want: true},
		"no more than the share":                            {limits: usual, ready: map[string]int{"a": 45, "b": 45}, falls: []falls{{pods: 55, replicas: "a"}, {pods: 55, replicas: "b"}}},
		"one more than the share":                           {limits: usual, ready: map[string]int{"a": 44, "b": 44}, falls: []falls{{pods: 56, replicas: "a"}, {pods: 56, replicas: "b"}}, want: true},
		"too few to tell":                                   {limits: usual, ready: map[string]int{"a": 0, "b": 0}, falls: []falls{{pods: 5, replicas: "a"}, {pods: 4, replicas: "b"}}},
		"one Service that goes to none":                     {limits: usual, ready: map[string]int{"a": 0, "b": 5}, falls: []falls{{pods: 100, replicas: "a"}}},
		"one Service that goes to none, and one of another": {limits: usual, ready: map[string]int{"a": 0, "b": 4}, falls: []falls{{pods: 100, replicas: "a"}, {pods: 1, replicas: "b"}}},
		"one Service that goes to none, and most others":    {limits: usual, ready: map[string]int{"a": 0, "b": 4}, falls: []falls{{pods: 100, replicas: "a"}, {pods: 6, replicas: "b"}}, want: true},
		"one Service on nodes that are silent":              {limits: usual, ready: map[string]int{"a": 0, "b": 5}, falls: []falls{{pods: 60, replicas: "a", silent: true}, {pods: 40, replicas: "a"}}, want: true},
		"half of them on nodes that are silent":             {limits: usual, ready: map[string]int{"a": 0, "b": 5}, falls: []falls{{pods: 50, replicas: "a", silent: true}, {pods: 50, replicas: "a"}}},
		"an umbrella over two Services hides nobody":        {limits: usual, ready: map[string]int{"a": 3, "b": 3, "u": 6}, falls: []falls{{pods: 7, replicas: "au"}, {pods: 7, replicas: "bu"}}, want: true},
		"an umbrella over one Service makes no panic":       {limits: usual, ready: map[string]int{"a": 0, "u": 5}, falls: []falls{{pods: 20, replicas: "au"}}},
		"pods behind no Service do not count":               {limits: usual, ready: map[string]int{"a": 5, "b": 5}, falls: []falls{{pods: 100, alone: true}}},
		"pods behind no Service make no panic of others":    {limits: usual, ready: map[string]int{"a": 5, "b": 5}, falls: []falls{{pods: 100, alone: true}, {pods: 4, replicas: "a"}, {pods: 4, replicas: "b"}}},
		"some of them more than a minute ago":               {limits: usual, ready: map[string]int{"a": 3, "b": 3}, falls: []falls{{pods: 7, replicas: "a", ago: time.Minute}, {pods: 7, replicas: "b"}}},
		"all of them within a minute":                       {limits: usual, ready: map[string]int{"a": 3, "b": 3}, falls: []falls{{pods: 7, replicas: "a", ago: time.Minute - time.Millisecond}, {pods: 7, replicas: "b"}}, want: true},
		"never":                                             {limits: Limits{MinEndpoints: 1}, ready: map[string]int{"a": 0, "b": 0}, falls: []falls{{pods: 50, replicas: "a"}, {pods: 50, replicas: "b"}}},
		"never, said otherwise":                             {limits: Limits{MinEndpoints: 1, PanicPercent: 100}, ready: map[string]int{"a": 0, "b": 0}, falls: []falls{{pods: 50, replicas: "a"}, {pods: 50, replicas: "b"}}},
	} {
		var r readiness
		now := start.Add(time.Hour)
		in := map[string]string{}
		for i, f := range c.falls {
			for n := range f.pods {
				p := downOne(fmt.Sprintf("pod-%d-%d", i, n), f.silent)
				in[p.Name] = f.replicas
				was := p
				was.Ready = true
				r.note(now.Add(-f.ago), c.limits, &was, podVersion{Object: p}, !f.alone)
			}
		}
		ready := 0
		for replica, n := range c.ready {
			if replica != "u" { // whose pods are others' as well
				ready += n
			}
		}
		got := r.mass(now, c.limits, func() world {
			return world{ready: ready, serves: func(d *downPod) bool { return in[d.reported.Object.Name] != "" }, readyIn: func(replica syncer.Key) int { return c.ready[replica.Name] },
				replicasOf: func(p *syncer.Pod) (replicas []syncer.Key) {
					for _, letter := range in[p.Name] {
						replicas = append(replicas, replicaKey(string(letter)))
					}
					return replicas
				}}
		})
		if got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func downOne(name string, silent bool) syncer.Pod {
	return syncer.Pod{Key: syncer.Key{Namespace: "shop", Name: name}, UID: name, NodeSilent: silent,
		IPs: []syncer.PodIP{{Addr: netip.MustParseAddr("10.0.0.1")}}}
}

// TestWhatAPanicKeeps: what turned before and after it was noticed, but for what is certain;
// and what is left when it ends.
func TestWhatAPanicKeeps(t *testing.T) {
	l := Limits{MinEndpoints: 2, PanicPercent: 50, HoldSilent: 20 * time.Second}
	var r readiness
	turn := func(name string, serves bool, change func(*syncer.Pod)) bool {
		was := downOne(name, false)
		was.Ready = true
		is := downOne(name, false)
		change(&is)
		return r.note(start, l, &was, podVersion{Object: is}, serves)
	}
	plain := func(*syncer.Pod) {}
	turn("before", true, plain)
	turn("alone", false, plain)
	if kept := r.keeps(syncer.Key{Namespace: "shop", Name: "before"}); kept != "" {
		t.Errorf("it is kept for %q before there is a panic", kept)
	}
	if restored := r.enter(start); len(restored) != 1 || restored[0].Object.Name != "before" || !restored[0].Object.Ready {
		t.Errorf("a panic takes anew %+v", restored)
	}
	turn("after", true, plain)
	turn("terminating", true, func(p *syncer.Pod) { p.Deleted = 1 })
	turn("finished", true, func(p *syncer.Pod) { p.Terminal = true })
	turn("another", true, func(p *syncer.Pod) { p.UID = "new" })
	turn("moved", true, func(p *syncer.Pod) { p.IPs = []syncer.PodIP{{Addr: netip.MustParseAddr("10.0.0.2")}} })
	turn("silent", true, func(p *syncer.Pod) { p.NodeSilent = true })
	for name, want := range map[string]HoldReason{
		"before": HoldPanic, "after": HoldPanic, "silent": HoldPanic, "alone": "", "terminating": "", "finished": "", "another": "", "moved": "",
	} {
		if got := r.keeps(syncer.Key{Namespace: "shop", Name: name}); got != want {
			t.Errorf("%s is kept for %q, want %q", name, got, want)
		}
	}
	if r.kept != 3 || r.keptServing != 3 || r.worst != 3 {
		t.Errorf("%d are kept, %d of them serve, at most %d were", r.kept, r.keptServing, r.worst)
	}

	if free := r.release(func(pod syncer.Key) bool { return pod.Name == "after" }); len(free) != 1 || free[0].Object.Ready || r.panicAt.IsZero() {
		t.Errorf("a release of one: %+v, panic since %v", free, r.panicAt)
	}
	if free := r.tick(start, l, func() int { return 1 }, true, nil, false); len(free) != 0 || r.panicAt.IsZero() {
		t.Errorf("it ends while most are down: %+v", free)
	}
	if free := r.tick(start, l, func() int { return 100 }, true, nil, false); len(free) != 1 || free[0].Object.Name != "before" || !r.panicAt.IsZero() {
		t.Errorf("its end lets go of %+v", free)
	}
	if got := r.keeps(syncer.Key{Namespace: "shop", Name: "silent"}); got != HoldSilentNode {
		t.Errorf("after it the pod of a silent node is kept for %q", got)
	}
	if free := r.tick(start.Add(l.HoldSilent), l, func() int { return 100 }, true, nil, false); len(free) != 1 || r.kept != 0 {
		t.Errorf("when its time is over: %+v, %d are kept", free, r.kept)
	}
}

// TestAPanicOutlastsAListOnItsWay: between two pieces of a list that shows all pods ready again
// no panic ends: it would let go of those as not ready that the list has yet to show.
func TestAPanicOutlastsAListOnItsWay(t *testing.T) {
	w := &cluster{}
	s := New(start, Config{Limits: Limits{Lists: true, MinEndpoints: 2, PanicPercent: 50}, Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }}, 1)
	step := func(e Event) Effects { return s.Step(start, e) }
	step(Baseline{})
	step(Connected{})
	step(Listed[store.Node]{})
	services := Listed[syncer.Service]{Revision: 10}
	for _, name := range []string{"a", "b"} {
		service := theService{name, name, 9, 1}
		services.Items = append(services.Items, service.shown())
	}
	step(services)
	pods := func() (l Listed[syncer.Pod]) {
		for _, p := range w.pods {
			l.Items = append(l.Items, w.shown(p))
		}
		l.Revision = w.revision
		return l
	}
	for i := range 8 {
		w.addPod(0, 1, []string{"a", "b"}[i%2])
	}
	step(pods())
	for i := range w.pods {
		w.pods[i].ready, w.pods[i].revision = false, w.bump()
		step(&Seen[syncer.Pod]{w.shown(w.pods[i]), false})
	}
	if !s.inPanic() {
		t.Fatal("there is no panic")
	}
	for i := range w.pods {
		w.pods[i].ready, w.pods[i].revision = true, w.bump()
	}
	s.piece = 1
	for out := step(pods()); out.Next != nil; out = step(out.Next) {
		out.Changes = append(out.Changes, step(Tick{}).Changes...)
		for _, c := range out.Changes {
			for _, d := range c.Dirty {
				if d.Effect == syncer.Removal {
					t.Fatalf("%v leaves: %+v", d.Replica, c.Cause)
				}
			}
		}
	}
	if step(Tick{}); s.inPanic() {
		t.Error("the panic goes on")
	}
}
