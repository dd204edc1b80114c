// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unique"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// wordRules decide by words that are kept of a pod: OUTCOME of a Service that is labelled
// ruled=yes, zone-OUTCOME of a node.
type wordRules struct{ name string }

func (w wordRules) Decide(s Subject) Decision {
	word := ""
	if s.Pod.Text != (unique.Handle[string]{}) {
		word = s.Pod.Text.Value()
	}
	if zoned, ok := strings.CutPrefix(s.Zone, "zone-"); ok && w.name == "b" {
		word = zoned
	}
	if s.Labels["ruled"] != "yes" || !slices.Contains(Outcomes(), Outcome(word)) {
		return none
	}
	return Decision{Rule: w.name + "-" + word, Then: Outcome(word)}
}

func (w wordRules) ReadsNode() bool { return w.name == "b" }
func (w wordRules) ID() string      { return w.name }

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
	rng *rand.Rand
}

func (r *ruled) step() {
	r.t.Helper()
	before := r.ready()
	what, dirty := r.happens()
	touched := map[syncer.Key]syncer.Effect{}
	for _, d := range dirty {
		touched[d.Replica] = max(touched[d.Replica], d.Effect)
	}
	after := r.ready()
	for _, replica := range []syncer.Key{in("one"), in("two")} {
		lost := slices.ContainsFunc(before[replica], func(a string) bool { return strings.HasSuffix(a, "+") && !slices.Contains(after[replica], a) })
		switch effect := touched[replica]; {
		case lost && effect != syncer.Removal, !slices.Equal(before[replica], after[replica]) && effect == syncer.None:
			r.t.Fatalf("%s: %s went from %v to %v, and is told as %v", what, replica, before[replica], after[replica], effect)
		}
		n, _, _ := r.ReadyEndpoints(replica)
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
	r.lawful(what)
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
		return "delete " + pod, r.DeletePod(v)
	case 1, 2:
		svc := aService([]string{"one", "two"}[r.rng.IntN(2)], "web")
		svc.Labels = map[string]string{"ruled": []string{"yes", "no"}[r.rng.IntN(2)]}
		svc.PublishNotReadyAddresses = r.rng.IntN(3) == 0
		return "service " + svc.Name, r.serve(svc)
	case 3:
		return "zone", r.SetNode(Node{Name: fmt.Sprintf("n%d", r.rng.IntN(2)), Zone: []string{"a", "zone-Absent", "zone-NotReady"}[r.rng.IntN(3)]})
	case 4:
		rules := []Decider{nil, wordRules{"a"}, wordRules{"b"}}[r.rng.IntN(3)]
		return fmt.Sprint("rules ", rules), r.SetDecider(rules, KeptSince{})
	case 5:
		for _, w := range r.WaitingRules() {
			if r.rng.IntN(2) == 0 {
				r.HoldRules(w.Replica)
			} else {
				dirty = append(dirty, r.ApplyRules(w.Replica, nil)...)
			}
		}
		return "judged", dirty
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
	if word := append(Outcomes(), "", "", "")[r.rng.IntN(7)]; word != "" {
		v.Kept.Text = unique.Make(string(word))
	}
	return fmt.Sprintf("pod %+v", v), r.UpsertPod(v)
}

// lawful checks that what is decided is what the rules say, that only what a hold lets
// stay differs from it, and that nothing is left of what is gone.
func (r *ruled) lawful(what string) {
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
				if ruling.waits() && !r.servesAs(svc, ruling.as) && r.servesAs(svc, ruling.decided.apply(&ruling.rec.Pod)) {
					r.t.Fatalf("%s: %s is kept from %s, where it would be ready", what, name, svc.current.Key)
				}
			}
			for g := range svc.groups {
				for _, rec := range g.pods {
					decided, _ := r.decide(svc, rec)
					is := none
					if ruling := svc.rulings[rec.Name]; ruling != nil {
						is = ruling.decided
					}
					if is != decided {
						r.t.Fatalf("%s: of %s for %s the rules say %v, and %v is decided", what, rec.Name, svc.current.Key, decided, is)
					}
				}
			}
		}
	}
}
