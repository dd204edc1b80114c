// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// edited is a member whose rules are edited while its pods change.
type edited struct {
	t     *testing.T
	rng   *rand.Rand
	state *State
	pods  map[string]podVersion // as the member has them
	rv    uint64
	// touched are pods that have said something of themselves since the edit, or are new.
	touched map[string]bool
	// Of the steps: of a busy machine, the processor's time.
	longest, took time.Duration
	steps         int
}

// processorTime is what this process has used, of user and system.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (e *edited) step(event Event) Effects {
	began := processorTime()
	out := e.state.Step(time.Unix(100, 0), event)
	took := processorTime() - began
	e.longest, e.took, e.steps = max(e.longest, took), e.took+took, e.steps+1
	return out
}

// whole takes in an event with all that follows.
func (e *edited) whole(event Event) {
	for event != nil {
		out := e.step(event)
		if event = out.Next; event == nil && out.Work {
			event = Enforce{}
		}
	}
}

// newEdited has read a member of some Services with ten pods each, and is done with its rules.
func newEdited(t *testing.T, rng *rand.Rand, services, piece int, cfg Config) *edited {
	e := beginEdited(t, rng, services, piece, cfg)
	if e.whole(Enforce{}); !e.state.View().Synced {
		t.Fatal("the member was not read whole")
	}
	return e
}

// beginEdited has read it, and begun with its rules.
func beginEdited(t *testing.T, rng *rand.Rand, services, piece int, cfg Config) *edited {
	cfg.Placement = func(svc *syncer.Service) (syncer.Key, bool) { return svc.Key, true }
	e := &edited{t: t, rng: rng, state: New(time.Unix(100, 0), cfg, 1), pods: map[string]podVersion{}, rv: 10, touched: map[string]bool{}}
	e.state.piece = piece
	list := Listed[syncer.Service]{Revision: 10}
	for i := range services {
		list.Items = append(list.Items, store.Versioned[syncer.Service]{RV: 10, Object: syncer.Service{
			Key: syncer.Key{Namespace: namespace, Name: fmt.Sprint("s", i)}, UID: fmt.Sprint("s", i), Selector: map[string]string{"app": fmt.Sprint("s", i)}, ClusterIP: "None",
		}})
		for n := range 10 {
			e.change(i, n, func(p *podVersion) { p.Object.Ready = true })
		}
	}
	clear(e.touched)
	pods := Listed[syncer.Pod]{Revision: 10}
	for _, p := range e.pods {
		pods.Items = append(pods.Items, p)
	}
	for _, event := range []Event{Connected{}, Listed[store.Node]{Revision: 10}, list, pods} {
		for event != nil {
			event = e.step(event).Next
		}
	}
	return e
}

// change changes a pod, which is made if there is none.
func (e *edited) change(service, n int, change func(*podVersion)) podVersion {
	name := fmt.Sprintf("s%d-%d", service, n)
	p, known := e.pods[name]
	if !known {
		e.rv++
		p.Object = syncer.Pod{
			Key: syncer.Key{Namespace: namespace, Name: name}, UID: fmt.Sprint(name, ".", e.rv), Labels: map[string]string{"app": fmt.Sprint("s", service)},
			IPs: []syncer.PodIP{{Addr: address(1 + service*10 + n)}},
		}
		p.Kept.Text = []string{"", "x", "y", "x+y"}[e.rng.IntN(4)]
	}
	e.rv++
	p.RV = e.rv
	change(&p)
	e.pods[name], e.touched[name] = p, true
	return p
}

// happens is an event of a pod.
func (e *edited) happens(services int) Event {
	service, n := e.rng.IntN(services), e.rng.IntN(10)
	name := fmt.Sprintf("s%d-%d", service, n)
	if p, known := e.pods[name]; known && e.rng.IntN(4) == 0 {
		e.rv++
		p.RV = e.rv
		delete(e.pods, name)
		e.touched[name] = true
		return &Gone[syncer.Pod]{Versioned: p}
	}
	return &Seen[syncer.Pod]{Versioned: e.change(service, n, func(p *podVersion) {
		switch e.rng.IntN(3) {
		case 0:
			p.Object.Ready = !p.Object.Ready
		case 1:
			p.Kept.Text = []string{"", "x", "y", "x+y"}[e.rng.IntN(4)]
		}
	})}
}

// ready are the pods behind the ready endpoints of a Service.
func (e *edited) ready(service int) map[string]bool {
	all := map[string]bool{}
	for _, c := range store.Peek(e.state.Share(syncer.Key{Namespace: namespace, Name: fmt.Sprint("s", service)}).Inputs) {
		for i := range c.Endpoints {
			all[c.Endpoints[i].Target.Key.Name] = all[c.Endpoints[i].Target.Key.Name] || c.Endpoints[i].Ready
		}
	}
	return all
}

// lawful checks that nothing is ready that the member says is not, and that a pod which has
// said nothing lost nothing by rules that are held.
func (e *edited) lawful(what string, service int, rules store.Decider, settled bool) {
	e.t.Helper()
	is := e.ready(service)
	held := e.state.ruling.held[syncer.Key{Namespace: namespace, Name: fmt.Sprint("s", service)}]
	for n := range 10 {
		name := fmt.Sprintf("s%d-%d", service, n)
		p, known := e.pods[name]
		then := outcome(rules, p.Kept.Text, nil)
		if e.state.cfg.Lists {
			then = outcome(rules, p.Kept.Text, func(rule string) bool { return held != nil && held.has(rule) })
		}
		switch want := known && p.Object.Ready && then == store.Upstream; {
		case is[name] && !(known && p.Object.Ready):
			e.t.Fatalf("%s: %s is ready, which the member says is not", what, name)
		case settled && is[name] != want && !(want && e.touched[name]): // whoever matched by itself stays off
			if held == nil || !e.touched[name] {
				e.t.Fatalf("%s: %s is ready: %t, of rules %v with %v held and marks %q", what, name, is[name], rules, held.names(), p.Kept.Text)
			}
		case !settled && e.state.cfg.Lists && p.Object.Ready && !e.touched[name] && !is[name]:
			e.t.Fatalf("%s: %s with marks %q was taken before it was judged: %+v, held %v", what, name, p.Kept.Text, e.state.ruling.work, held)
		}
	}
}

// TestEventsBetweenThePiecesOfAnEdit: whatever a pod says counts at once, nothing comes back
// that has left, nothing is taken that was not judged, and in the end all is as the rules say.
func TestEventsBetweenThePiecesOfAnEdit(t *testing.T) {
	const services = 5
	rules := deciderNamed("x/NotReady,y/Absent")
	for seed := range dice.Seeds(t, 60) {
		rng := dice.From(seed, 21)
		var cfg Config
		if rng.IntN(2) == 0 {
			cfg.Limits = Limits{Lists: true, Percent: 1}
		}
		e := newEdited(t, rng, services, 1+rng.IntN(12), cfg)
		cfg = e.state.cfg
		cfg.Decider = rules
		between := 0
		for out := e.step(Configured{cfg}); out.Work; {
			event := Event(Enforce{})
			if rng.IntN(3) == 0 {
				event, between = e.happens(services), between+1
			}
			out = e.step(event)
			for service := range services {
				e.lawful(fmt.Sprintf("%T", event), service, rules, false)
			}
		}
		for service := range services {
			e.lawful("the end", service, rules, true)
		}
		if between < 5 {
			t.Errorf("%d events came between the pieces", between)
		}
	}
}

// TestWhatComesBetweenThePiecesOfAnEdit: another edit, a release, a turn to lead and a list of
// nodes wait for each other, also before the member was read whole, and in the end the last
// rules count for all that nothing holds.
func TestWhatComesBetweenThePiecesOfAnEdit(t *testing.T) {
	const services = 5
	for seed := range dice.Seeds(t, 200) {
		rng := dice.From(seed, 22)
		cfg := Config{Limits: Limits{Lists: rng.IntN(3) > 0, Percent: 1}}
		edits := []string{"odd/NotReady", "x/NotReady", "x/NotReady,y/Absent", "y/Absent,in-b/NotReady", "all/NotReady"}
		cfg.Decider = deciderNamed(edits[rng.IntN(len(edits))])
		e := beginEdited(t, rng, services, 1+rng.IntN(12), cfg)
		turn := func() Event {
			switch rng.IntN(60) {
			case 0, 1:
				cfg = e.state.cfg
				cfg.Decider = deciderNamed(edits[rng.IntN(len(edits))])
				return Configured{cfg}
			case 2:
				return Release{}
			case 3:
				return Release{Replica: &syncer.Key{Namespace: namespace, Name: fmt.Sprint("s", rng.IntN(services))}}
			case 4:
				return e.leading()
			case 5:
				return Listed[store.Node]{Revision: e.rv, Items: []store.Versioned[store.Node]{{RV: e.rv, Object: store.Node{Name: fmt.Sprint("n", rng.IntN(3)), Zone: "b"}}}}
			}
			return Enforce{}
		}
		for range 400 {
			e.step(turn())
		}
		e.whole(Enforce{})
		if cfg = e.state.cfg; !e.state.View().Synced || deciderID(e.state.store.Decider()) != deciderID(cfg.Decider) {
			t.Fatalf("synced: %t, in force is %q, not %q", e.state.View().Synced, deciderID(e.state.store.Decider()), deciderID(cfg.Decider))
		}
		e.whole(Release{})
		for service := range services {
			e.lawful("the end", service, cfg.Decider, true)
		}
		if len(e.state.ruling.held) > 0 {
			t.Fatalf("%v are still held", e.state.ruling.held)
		}
	}
}

// leading is that another process wrote until now what this one would.
func (e *edited) leading() Leading {
	out := Leading{Replicas: map[syncer.Key]Standing{}, Served: map[syncer.Key]bool{}}
	for _, replica := range e.state.store.Replicas() {
		var of Standing
		for _, c := range store.Peek(e.state.Share(replica).Inputs) {
			of.Endpoints = append(of.Endpoints, c.Endpoints...)
		}
		out.Replicas[replica], out.Served[replica] = of, true
	}
	return out
}

// TestRulesTakeTheirTimeInPieces: no step of an edit, of a first sync, a release or a turn to
// lead takes more than a small part of the work on 20,000 pods. It is held against all of that
// work, and by the best of several.
func TestRulesTakeTheirTimeInPieces(t *testing.T) {
	const services = 2000
	rules := deciderNamed("all/NotReady")
	strict := Config{Limits: Limits{Lists: true, Percent: 1}}
	edit := func(e *edited, rules string) {
		cfg := e.state.cfg
		cfg.Decider = deciderNamed(rules)
		e.whole(Configured{cfg})
		if len(e.state.ruling.held) != services {
			t.Fatalf("%d are held", len(e.state.ruling.held))
		}
	}
	for what, run := range map[string]func() *edited{
		"a first sync": func() *edited {
			cfg := strict
			cfg.Decider = rules
			return newEdited(t, dice.From(1, 2), services, usualPiece, cfg)
		},
		"an edit": func() *edited {
			e := newEdited(t, dice.From(1, 2), services, usualPiece, strict)
			e.longest, e.took, e.steps = 0, 0, 0
			edit(e, "all/NotReady")
			return e
		},
		"an edit in the middle of another": func() *edited {
			e := newEdited(t, dice.From(1, 2), services, usualPiece, strict)
			e.longest, e.took, e.steps = 0, 0, 0
			cfg := e.state.cfg
			cfg.Decider = deciderNamed("all-others/NotReady")
			for e.step(Configured{cfg}); e.state.ruling.work.turn < look; {
				e.step(Enforce{})
			}
			edit(e, "all/NotReady")
			return e
		},
		"a release": func() *edited {
			e := newEdited(t, dice.From(1, 2), services, usualPiece, strict)
			edit(e, "all/NotReady")
			e.longest, e.took, e.steps = 0, 0, 0
			e.whole(Release{})
			if n := e.state.store.RuleCount()["all"]; n != 10*services {
				t.Fatalf("%d are ruled", n)
			}
			return e
		},
		"a turn to lead": func() *edited {
			e := newEdited(t, dice.From(1, 2), services, usualPiece, strict)
			edit(e, "all/NotReady")
			event := e.leading()
			for _, of := range event.Replicas {
				for i := range of.Endpoints {
					of.Endpoints[i].Ready = false
				}
			}
			e.longest, e.took, e.steps = 0, 0, 0
			e.whole(event)
			if n := e.state.store.RuleCount()["all"]; n != 10*services || len(e.state.ruling.held) > 0 {
				t.Fatalf("%d are ruled, %d held", n, len(e.state.ruling.held))
			}
			return e
		},
	} {
		best := 1.0
		for try := 0; try < 5 && best > 0.25; try++ {
			e := run()
			t.Logf("%s: %d steps in %v, the longest %v", what, e.steps, e.took, e.longest)
			best = min(best, float64(e.longest)/float64(e.took))
		}
		if best > 0.25 {
			t.Errorf("one step took %.0f %% of %s", 100*best, what)
		}
	}
}
