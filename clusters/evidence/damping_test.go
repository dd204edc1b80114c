// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// damped is a member with three pods behind web, read whole at the start.
func damped(t testing.TB, d Damping) (s *State, show func(at time.Duration, name string, rv uint64, ready bool) Effects) {
	t.Helper()
	s = New(start, Config{
		Damping:   dampingOf(d),
		Placement: func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true },
	}, 1)
	pod := func(name string, ready bool) syncer.Pod {
		p, _, err := podNamed(name + " 10.0.0." + name[len(name)-1:] + " web")
		if err != nil {
			t.Fatal(err)
		}
		p.Ready = ready
		return p
	}
	web, _, err := serviceNamed("web selects web")
	if err != nil {
		t.Fatal(err)
	}
	pods := Listed[syncer.Pod]{Revision: 10}
	for _, name := range []string{"web-1", "web-2", "web-3"} {
		pods.Items = append(pods.Items, podVersion{Object: pod(name, true), RV: 10})
	}
	for _, e := range []Event{Connected{}, Listed[store.Node]{Revision: 10},
		Listed[syncer.Service]{Items: []store.Versioned[syncer.Service]{{Object: web, RV: 10}}, Revision: 10}, pods} {
		for e != nil {
			e = s.Step(start, e).Next
		}
	}
	return s, func(at time.Duration, name string, rv uint64, ready bool) Effects {
		return s.Step(start.Add(at), &Seen[syncer.Pod]{Versioned: podVersion{Object: pod(name, ready), RV: rv}})
	}
}

// TestExplainWaits: what waits is counted, and explained as an endpoint that is not ready.
func TestExplainWaits(t *testing.T) {
	s, show := damped(t, Damping{StableFor: 10 * time.Second, KeepOne: true})
	show(time.Second, "web-1", 11, false)
	show(2*time.Second, "web-1", 12, true)
	web := syncer.Key{Namespace: namespace, Name: "web"}
	e := s.Explain(web)[0]
	want := map[syncer.Key]Wait{{Namespace: namespace, Name: "web-1"}: {Since: start.Add(2 * time.Second), For: 10 * time.Second}}
	if s.Waiting() != 1 || len(e.Waits) != 1 || e.Waits[e.Pods[0].Key] != want[e.Pods[0].Key] {
		t.Errorf("%d wait: %v", s.Waiting(), e.Waits)
	}
	if e.Ready != 2 || e.NotReady != 1 || e.Pods[0].Verdict.Ready || !e.Pods[1].Verdict.Ready {
		t.Errorf("%d ready, %d not ready: %+v", e.Ready, e.NotReady, e.Pods)
	}
	out := s.Step(start.Add(12*time.Second), Tick{})
	if len(out.Changes) != 1 {
		t.Fatalf("%d changes", len(out.Changes))
	}
	if c := out.Changes[0]; c.Cause.Event != "stable" || c.Cause.Key.Name != "web-1" || c.Cause.Live || c.Dirty[0].Effect != syncer.Addition {
		t.Errorf("%+v", c)
	}
	if e := s.Explain(web)[0]; e.Ready != 3 || len(e.Waits) != 0 || s.Waiting() != 0 {
		t.Errorf("%+v", e)
	}
}

// TestNothingIsKeptWithoutStableFor: neither pods nor Services are remembered.
func TestNothingIsKeptWithoutStableFor(t *testing.T) {
	s, show := damped(t, Damping{KeepOne: true})
	show(time.Second, "web-1", 11, false)
	if len(s.damping.sources) != 0 || s.store.Touched().Pods != nil {
		t.Error("something is kept")
	}
	s, show = damped(t, Damping{StableFor: time.Second, KeepOne: true})
	show(time.Second, "web-1", 11, false)
	show(2*time.Second, "web-1", 12, true)
	s.Step(start.Add(3*time.Second), Tick{})
	if n := len(s.damping.sources[syncer.Key{Namespace: namespace, Name: "web"}].pods); n != 0 {
		t.Errorf("%d pods are kept that are ready", n)
	}
}

// TestDampedByRulesThatGo: what rules have let serve is no new endpoint when another
// configuration takes it away in the same step in which it comes.
func TestDampedByRulesThatGo(t *testing.T) {
	s, show := damped(t, Damping{StableFor: 10 * time.Second})
	show(time.Second, "web-4", 11, false)
	configure := func(rules string) {
		c := s.cfg
		c.Decider = deciderNamed(rules)
		for out := s.Step(start.Add(2*time.Second), Configured{c}); out.Work; {
			out = s.Step(start.Add(2*time.Second), Enforce{})
		}
	}
	web := syncer.Key{Namespace: namespace, Name: "web"}
	for _, c := range []struct {
		rules string
		ready int
	}{{"", 3}, {"all/Ready", 4}, {"", 3}} {
		if configure(c.rules); s.Explain(web)[0].Ready != c.ready {
			t.Fatalf("%d ready with rules %q", s.Explain(web)[0].Ready, c.rules)
		}
	}
	show(3*time.Second, "web-4", 12, true)
	if e := s.Explain(web)[0]; e.Ready != 3 || len(e.Waits) != 1 {
		t.Errorf("%d ready, %d wait", e.Ready, len(e.Waits))
	}
}

// BenchmarkDampedFlap is two events of a pod of a Service of a thousand, half of which wait.
func BenchmarkDampedFlap(b *testing.B) {
	for _, d := range []Damping{{}, {StableFor: time.Hour, KeepOne: true}} {
		b.Run("stableFor="+d.StableFor.String(), func(b *testing.B) {
			s, _ := damped(b, d)
			pods := make([]syncer.Pod, 1000)
			rv := uint64(100)
			turn := func(p syncer.Pod, ready bool) {
				rv++
				p.Ready = ready
				s.Step(start.Add(time.Second), &Seen[syncer.Pod]{Versioned: podVersion{Object: p, RV: rv}})
			}
			for i := range pods {
				items, _ := expand("p-{1000..1999} 10.1.{0..999} web")
				p, _, err := podNamed(items[i])
				if err != nil {
					b.Fatal(err)
				}
				pods[i] = p
				turn(p, true)
			}
			for i := range len(pods) / 2 {
				turn(pods[i], false)
				turn(pods[i], true)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				turn(pods[i%len(pods)], false)
				turn(pods[i%len(pods)], true)
			}
		})
	}
}
