// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// wordRules has a rule for each outcome, in their order. It decides by words that are kept
// of a pod, of a Service that is labelled ruled=yes, and zone-OUTCOME of a node.
type wordRules struct{ name string }

func (w wordRules) Decide(s Subject, held func(string) bool) (matched []Decision) {
	var words []string
	if s.Pod.Text != "" {
		words = strings.Split(s.Pod.Text, "+")
	}
	if zoned, ok := strings.CutPrefix(s.Zone, "zone-"); ok && w.ReadsNode() {
		words = append(words, zoned)
	}
	if s.Labels["ruled"] != "yes" {
		return []Decision{none}
	}
	decided := false
	for _, then := range Outcomes() {
		rule := w.name + "-" + string(then)
		if isHeld := held != nil && held(rule); slices.Contains(words, string(then)) && (isHeld || !decided) {
			matched = append(matched, Decision{Rule: rule, Then: then})
			decided = decided || !isHeld
		}
	}
	if !decided {
		matched = append(matched, none)
	}
	return matched
}

func (w wordRules) ReadsNode() bool  { return w.name == "b" }
func (wordRules) ReadsService() bool { return true }
func (wordRules) Readies() bool      { return true }
func (w wordRules) ID() string       { return w.name }

// TestRulingsFollowWhateverHappens: after any change of pods, Services, nodes and rules
// the counts are those of what is computed, what is decided is what the rules say, and
// every replica that changed was named, as a removal if it lost a ready endpoint.
func TestRulingsFollowWhateverHappens(t *testing.T) {
	for seed := range dice.Seeds(t, 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := &ruled{world: newWorld(t), rng: dice.From(seed, 11)}
			for range 400 {
				r.step()
			}
		})
	}
}

// ruled is a store whose rules change.
type ruled struct {
	*world
	rng  *rand.Rand
	edit *Edit // that is being prepared, or is coming into force
	// comes is true while some Services go by other rules than others.
	comes bool
	// former are the rules that Services went by before a step.
	former map[*service]*Edit
}

func (r *ruled) step() {
	r.t.Helper()
	before, known := r.ready(), r.rulings()
	r.former = map[*service]*Edit{}
	for svc := range r.indexedServices {
		r.former[svc] = svc.rules
	}
	what, dirty := r.happens()
	touched := map[syncer.Key]syncer.Effect{}
	for _, d := range dirty {
		touched[d.Replica] = max(touched[d.Replica], d.Effect)
	}
	after := r.ready()
	for _, replica := range []syncer.Key{in("one"), in("two")} {
		lost := slices.ContainsFunc(before[replica], func(a string) bool { return strings.HasSuffix(a, "+") && !slices.Contains(after[replica], a) })
		switch effect := touched[replica]; {
		case lost && strings.HasPrefix(what, "rules "):
			r.t.Fatalf("%s: %s went from %v to %v before it was judged", what, replica, before[replica], after[replica])
		case lost && effect != syncer.Removal, !slices.Equal(before[replica], after[replica]) && effect == syncer.None:
			r.t.Fatalf("%s: %s went from %v to %v, and is told as %v", what, replica, before[replica], after[replica], effect)
		}
		n := r.ReadyEndpoints(replica)
		want := 0
		for _, a := range after[replica] {
			if strings.HasSuffix(a, "+") {
				want++
			}
		}
		if n != want {
			r.t.Fatalf("%s: %s has %d ready endpoints %v, and counts %d", what, replica, want, after[replica], n)
		}
	}
	r.lawful(what, known)
}

// ready are the endpoints of the replicas as they are computed; + is ready.
func (r *ruled) ready() map[syncer.Key][]string {
	all := map[syncer.Key][]string{}
	for _, replica := range r.Replicas() {
		for _, c := range r.Peek(replica) {
			for i := range c.Endpoints {
				e := &c.Endpoints[i]
				if e.Terminating && !e.Ready {
					continue // which is counted as nothing
				}
				all[replica] = append(all[replica], e.Addr.String()+map[bool]string{true: "+", false: "-"}[e.Ready])
			}
		}
	}
	return all
}

// happens lets something happen.
func (r *ruled) happens() (what string, dirty []Dirty) {
	pod := fmt.Sprintf("p%d", r.rng.IntN(6))
	v := Versioned[syncer.Pod]{Object: aPod(pod, "web", pod[1]), RV: r.next()}
	switch n := r.rng.IntN(12); n {
	case 0:
		v.RV = r.next()
		return "delete " + pod, r.deletePod(v)
	case 1, 2:
		svc := aService([]string{"one", "two"}[r.rng.IntN(2)], "web")
		svc.Labels = map[string]string{"ruled": []string{"yes", "no"}[r.rng.IntN(2)]}
		svc.PublishNotReadyAddresses = r.rng.IntN(3) == 0
		return "service " + svc.Name, r.serve(svc)
	case 3:
		return "zone", r.SetNode(Node{Name: fmt.Sprintf("n%d", r.rng.IntN(2)), Zone: []string{"a", "zone-Absent", "zone-NotReady"}[r.rng.IntN(3)]})
	case 4:
		switch {
		case r.edit == nil: // anything may happen before it is in force
			r.edit = NewEdit([]Decider{nil, wordRules{"a"}, wordRules{"b"}}[r.rng.IntN(3)], KeptSince{})
			r.Prepare(r.edit, 1+r.rng.IntN(6))
			return "edited", nil
		case !r.comes:
			r.Begin(r.edit)
			r.comes = true
		}
		rules := r.edit.decider
		if dirty, r.comes = r.Switch(1); r.comes {
			return fmt.Sprint("rules of some, ", rules), dirty
		}
		r.edit = nil
		return fmt.Sprint("rules ", rules), dirty
	case 5:
		return "judged", r.judge()
	}
	p := &v.Object
	p.Ready, p.NodeName = r.rng.IntN(3) > 0, fmt.Sprintf("n%d", r.rng.IntN(2))
	if r.rng.IntN(4) == 0 {
		p.Labels = map[string]string{"app": "other"}
	}
	if r.rng.IntN(6) == 0 {
		p.Deleted = 1
	}
	if r.rng.IntN(8) == 0 {
		p.UID += "-again"
	}
	var words []string
	for _, then := range Outcomes() {
		if r.rng.IntN(3) == 0 {
			words = append(words, string(then))
		}
	}
	if len(words) > 0 {
		v.Kept.Text = strings.Join(words, "+")
	}
	return fmt.Sprintf("pod %+v", v), r.UpsertPod(v)
}

// judge holds some of the rules that wait or are held, for each replica, and lets others go.
func (r *ruled) judge() (dirty []Dirty) {
	for _, replica := range r.Replicas() {
		w, waits := r.WaitingRules(replica, func(string) bool { return false })
		if !waits && !slices.ContainsFunc(r.replicas[replica], func(svc *service) bool { return svc.open }) {
			continue
		}
		var rules []string
		for _, rule := range slices.Sorted(maps.Keys(w.Rules)) {
			if r.rng.IntN(2) == 0 {
				rules = append(rules, rule)
			}
		}
		dirty = append(dirty, r.HoldRules(replica, rules)...)
	}
	return dirty
}

// rulings are those of all pods that Services select: of one about which there is nothing
// to say, an empty one.
func (r *ruled) rulings() map[string]ruling {
	all := map[string]ruling{}
	for svc := range r.indexedServices {
		for g := range svc.groups {
			for _, rec := range g.pods {
				is := ruling{rec: rec, applied: none, as: &rec.Pod}
				if known := svc.rulings[rec.Name]; known != nil {
					is = *known
				}
				all[svc.current.Name+"/"+svc.current.UID+"/"+rec.Name+"/"+rec.UID] = is
			}
		}
	}
	return all
}

// lawful checks that what is decided is what the rules say, that it counts but for rules
// that are held, of which those spare a pod that it has matched ever since, and that
// nothing is left of what is gone.
func (r *ruled) lawful(what string, before map[string]ruling) {
	r.t.Helper()
	for _, ns := range r.namespaces {
		for name := range ns.kept {
			if ns.pods[name] == nil {
				r.t.Fatalf("%s: something is kept of %s, which is gone", what, name)
			}
		}
		for _, svc := range ns.services {
			for name, ruling := range svc.rulings {
				if rec := ns.pods[name]; rec == nil || ruling.rec != rec || !slices.Contains(rec.group.services, svc) {
					r.t.Fatalf("%s: a ruling of %s for %s is left", what, svc.current.Key, name)
				}
				if !r.servesAs(svc, ruling.as) && r.servesAs(svc, ruling.decided().apply(&ruling.rec.Pod)) && len(svc.heldRules) == 0 {
					r.t.Fatalf("%s: %s is kept from %s, where it would be ready", what, name, svc.current.Key)
				}
			}
		}
	}
	for svc := range r.indexedServices { // or what it reads would not be kept
		if !slices.Contains(r.Deciders(), svc.rules.decider) {
			r.t.Fatalf("%s: %s goes by rules %v, which are none of %v", what, svc.current.Key, svc.rules.decider, r.Deciders())
		}
	}
	judged := what == "judged"
	for key, is := range r.rulings() {
		svc := r.service(in(strings.Split(key, "/")[0]))
		all, _ := r.decide(svc, is.rec, everyRule)
		was, known := before[key]
		fail := func(text string, args ...any) {
			r.t.Helper()
			r.t.Fatalf("%s: %s of %v, held %v, was %v %v, is %v %v: %s", what, key, all, svc.heldRules, was.applied, was.says, is.applied, is.says, fmt.Sprintf(text, args...))
		}
		if is.decided() != all[0] {
			fail("what is decided is not what the rules say")
		}
		spared := func(rule string) bool {
			switch {
			case rule == "" || !svc.open && !svc.holds(rule):
				return false
			case r.former[svc] != svc.rules || !known:
				return true
			default:
				return was.spares(rule)
			}
		}
		var unheld Decision
		if i := slices.IndexFunc(all, func(d Decision) bool { return !spared(d.Rule) }); judged && known && was.says != nil && was.applied.takes() && !all[i].takes() {
			by, of := was.says.taking(was.applied.Rule), spared // which took it before, and keeps it
			spared = func(rule string) bool { return of(rule) && rule != by }
		}
		for _, d := range all {
			if is.spares(d.Rule) != spared(d.Rule) {
				fail("%s spares it: %v", d.Rule, is.spares(d.Rule))
			}
			if unheld == (Decision{}) && !spared(d.Rule) {
				unheld = d
			}
		}
		if is.unheld() != unheld {
			fail("%v is what no held rule says", unheld)
		}
		stays := judged && svc.holds("") && r.servesAs(svc, is.as) ||
			!judged && known && is.applied == was.applied && (r.former[svc] != svc.rules || was.applied != was.unheld() && is.unheld() == was.unheld()) ||
			svc.open && is.applied == is.decided() && (!known || !is.applied.takes())
		if is.applied != unheld && !stays {
			fail("it does not count")
		}
		if known && !judged && is.applied != unheld && is.applied != is.decided() && r.servesAs(svc, unheld.apply(&was.rec.Pod)) && !r.servesAs(svc, unheld.apply(&is.rec.Pod)) {
			fail("it turned, and that does not count")
		}
	}
}
