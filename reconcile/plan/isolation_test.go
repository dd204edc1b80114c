// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// policy is a server that refuses, and mostly without saying why.
type policy struct {
	// refuses is what it does not take; answers, unless nil, is what it answers instead.
	refuses  func(*Action) bool
	answers  func(*Action) answer
	settings Settings
	// refused and written count writes, failed those of which nothing is known, tried those
	// that were only checked.
	refused, failed, written, tried int
	// last are the objects of which the last write was not taken, content those at which the
	// server fails for what is in them, paused those that it wants left alone.
	last, content, paused map[Object]bool
	// uncheckable is of a server that checks no write that is not made.
	uncheckable bool
	shuffle     func([]netip.Addr)
}

// answer is what a server says to a write: an HTTP code, 0 where it takes it; done where it
// has made it all the same.
type answer struct {
	code   int
	causes []Cause
	done   bool
}

// unanswered is the code of a request that ends without an answer.
const unanswered = -1

func (r answer) taken() bool { return r.code == 0 }

// refused reports an answer about what is in the write; others tell nothing of it.
func (r answer) refused() bool { return r.code >= 400 && r.code < 500 && r.code != 429 }

func (p *policy) answer(a *Action) answer {
	switch {
	case p.answers != nil:
		r := p.answers(a)
		if p.content[a.Object()] && !r.taken() && !r.refused() {
			r.code = 403
		}
		return r
	case p.refuses(a):
		return answer{code: 403}
	}
	return answer{}
}

// carryOut writes like the reconciler: whatever is refused, the others go on; where a pause is
// asked for, those that were sent beside it.
func (p *policy) carryOut(w *world, plan Plan) (refused []RefusedWrite) {
	w.made, p.last = map[Object]string{}, map[Object]bool{}
	if p.paused == nil {
		p.paused = map[Object]bool{}
	}
	failed, over := maps.Clone(p.paused), false
	for _, stage := range plan.Sequence() {
		for i := range stage {
			a := &stage[i]
			if failed[a.Object()] || slices.ContainsFunc(a.Needs, func(o Object) bool { return p.last[o] }) {
				p.last[a.Object()] = true
				continue
			}
			for a != nil {
				r := p.answer(a)
				if r.taken() || r.done {
					w.apply(a)
				}
				switch p.last[a.Object()] = !r.taken(); {
				case r.taken():
					p.written++
					a = nil
				case r.refused():
					p.refused++
					if a.Verb != Delete {
						refused = append(refused, RefusedWrite{Action: a, Causes: r.causes, Message: "no", Large: r.code == 413})
					}
					a = a.Otherwise
				default:
					p.failed++
					failed[a.Object()] = true
					if r.code == 429 {
						p.paused[a.Object()], over = true, true
					}
					if a.Verb == Delete && !r.done || r.code == 429 {
						a = a.Otherwise
					} else {
						a = nil
					}
				}
			}
		}
		if over {
			break
		}
	}
	return refused
}

// failsForContent notes, of objects that could not be written, those that the server takes
// without addresses.
func (p *policy) failsForContent(plan Plan) (found bool) {
	for _, stage := range plan.Sequence() {
		for i := range stage {
			a := &stage[i]
			if p.last[a.Object()] && !p.content[a.Object()] && a.Verb == Update && (a.Endpoints != nil || a.Slice != nil) && p.answer(a).code >= 500 && p.answer(a.Emptied()).taken() {
				p.content[a.Object()], found = true, true
			}
		}
	}
	return found
}

// planOf decides as the reconciler does.
func planOf(current Current, contributions []Contribution, left []Refusal, settings Settings) Plan {
	accepted, refused := Without(current.Key, contributions, left, current)
	Steer(current.Key, accepted, settings.Policy)
	if len(accepted) == 0 && len(refused) > 0 {
		return Ending(current.Key, contributions, current, settings)
	}
	return Diff(current, mergeOrNil(accepted, current, settings), settings)
}

// pass is one look at the replica, until the search is at its end.
func (p *policy) pass(t testing.TB, w *world, contributions []Contribution, known, former []Refusal) *Isolation {
	t.Helper()
	search := NewIsolation(known, former, func(a *Action) (bool, error) {
		if p.tried++; p.uncheckable {
			return false, ErrUncheckable
		}
		return p.answer(a).taken(), nil
	})
	search.Shuffle = p.shuffle
	search.Make = func(a *Action) (bool, error) {
		if !p.answer(a).taken() {
			p.refused++
			return false, nil
		}
		w.made = map[Object]string{}
		w.apply(a)
		return true, nil
	}
	p.content = map[Object]bool{}
	settings, fails := p.settings, 0
	for range 200 {
		before, current := p.failed, w.current
		plan := planOf(current, contributions, search.LeftOut(), settings)
		refused := p.carryOut(w, plan)
		again := false
		switch {
		case len(refused) > 0:
			again = search.Refused(refused, contributions, current)
		case p.failed == before:
			again = search.Accepted()
		}
		if p.failed > before { // what takes away is tried by itself, and once more
			settings.Apart = true
			if fails++; fails < 3 {
				again = true
			} else if fails == 3 {
				again = p.failsForContent(plan)
			}
		}
		if !again {
			return search
		}
	}
	t.Fatal("no end of searching")
	return nil
}

func refuseAddresses(bad ...string) func(*Action) bool {
	return func(a *Action) bool {
		return slices.ContainsFunc(bad, func(text string) bool { return a.states()[netip.MustParseAddr(text)] != absent })
	}
}

// A server that says nothing but no: the smallest part that explains it is found, and
// all the rest is written.
func TestIsolation(t *testing.T) {
	fill := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprint("10.0.1.", i+1))
		}
		return all
	}
	tests := []struct {
		name    string
		a       []string
		refuses func(*Action) bool
		want    []string
		most    int
	}{
		{"nothing", fill(8), func(*Action) bool { return false }, nil, 0},
		{"one of eight", fill(8), refuseAddresses("10.0.1.5"), []string{"address 10.0.1.5"}, 8},
		{"one alone", fill(1), refuseAddresses("10.0.1.1"), []string{"address 10.0.1.1"}, 2},
		{"two of eight", fill(8), refuseAddresses("10.0.1.1", "10.0.1.8"), []string{"address 10.0.1.1", "address 10.0.1.8"}, 14},
		{"slices of one member", fill(2), func(a *Action) bool {
			return a.Slice != nil && a.Slice.Cluster == "idc-a"
		}, []string{"every change of idc-a but removals"}, 6},
		{"whatever is new of one member", fill(20), func(a *Action) bool {
			return a.Slice != nil && a.Slice.Cluster == "idc-a" && a.Verb == Create
		}, []string{"every change of idc-a but removals"}, 12},
		{"Services", fill(2), func(a *Action) bool { return a.Kind == KindService }, nil, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := stand(t)
			a := from("idc-a", 100, "http:80>8080 admin:81>9000", append([]string{"10.0.0.1"}, tt.a...)...)
			if tt.name == "Services" {
				a.Service.Labels = map[string]string{"new": "yes"}
			}
			contributions := []Contribution{a, from("idc-b", 200, "http:80>8080", "10.1.0.9")}
			p := policy{refuses: tt.refuses, settings: bothKinds}
			search := p.pass(t, w, contributions, nil, nil)
			var got []string
			for _, r := range search.LeftOut() {
				got = append(got, r.String())
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("left out %q, want %q", got, tt.want)
			}
			// Two kinds are refused at once, so each round may count twice.
			if p.refused > 2*tt.most {
				t.Errorf("%d writes were refused, want %d at most", p.refused, 2*tt.most)
			}
			for at := range w.places() {
				if gone := at.addr.String(); slices.Contains([]string{"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.1.0.1", "10.1.0.2"}, gone) && tt.name != "slices of one member" {
					t.Errorf("%v still stands", at)
				}
			}
			// What is known costs one refused write of each object when it is tried again, a share
			// those of two addresses.
			p.refused = 0
			again := p.pass(t, w, contributions, nil, search.LeftOut())
			if len(again.LeftOut()) != len(tt.want) || p.refused > 2*max(1, len(tt.want))*(1+bits.Len(uint(len(tt.want))))+4 {
				t.Errorf("tried again, %v is left out, %d writes were refused", again.LeftOut(), p.refused)
			}
			// And nothing when it is over.
			over := policy{refuses: func(*Action) bool { return false }, settings: bothKinds}
			if left := over.pass(t, w, contributions, nil, search.LeftOut()).LeftOut(); len(left) > 0 {
				t.Errorf("left out though all is accepted: %v", left)
			}
			if rest := Diff(w.current, mergeOrNil(contributions, w.current, bothKinds), bothKinds); !rest.Empty() {
				t.Errorf("not settled: %s", textOf(t, rest))
			}
		})
	}
}

// However many addresses are refused: a pass has few refused writes, the passes
// together find all of them, and what they cost grows with their number.
func TestIsolationIsNotQuadratic(t *testing.T) {
	cost := func(n int) int {
		w := newWorld(t, shopWeb)
		var all, bad []string
		for i := range 4 * n {
			addr := fmt.Sprintf("10.0.%d.%d", i/200, 1+i%200)
			all = append(all, addr)
			if i%4 == 0 {
				bad = append(bad, addr)
			}
		}
		contributions := []Contribution{from("idc-a", 1, "http:80>8080", all...)}
		p := policy{refuses: refuseAddresses(bad...), settings: Settings{WriteEndpoints: true, WriteSlices: true}}
		var known []Refusal
		for range 200 {
			before := p.refused
			search := p.pass(t, w, contributions, known, nil)
			if n := p.refused - before; n > 12*maxRefused {
				t.Errorf("%d refused writes in one pass", n)
			}
			left := search.LeftOut()
			if known = slices.DeleteFunc(slices.Clone(left), func(r Refusal) bool { return r.Untried }); len(known) == len(left) {
				break
			}
		}
		if len(known) != len(bad) {
			t.Errorf("of %d refused addresses %d are known", len(bad), len(known))
		}
		return p.refused
	}
	few, many := cost(8), cost(64)
	if many > 24*few {
		t.Errorf("8 causes cost %d refused writes, 64 cost %d", few, many)
	}
}

// Wherever those stand that are refused, the searches let all others through.
func TestIsolationLosesNoneThatIsTaken(t *testing.T) {
	rng := dice.New(t)
	for _, n := range []struct{ bad, good int }{{3, 1}, {3, 6}, {4, 4}, {6, 2}, {9, 1}, {20, 30}} {
		for _, first := range []bool{true, false} {
			w, _ := stand(t)
			var all, bad []string
			for i := range n.bad + n.good {
				addr := fmt.Sprint("10.0.1.", i+1)
				if all = append(all, addr); (i < n.bad) == first && len(bad) < n.bad || !first && i >= n.good {
					bad = append(bad, addr)
				}
			}
			contributions := []Contribution{from("idc-a", 100, "http:80>8080 admin:81>9000", all...), from("idc-b", 200, "http:80>8080", "10.1.0.9")}
			p := policy{refuses: refuseAddresses(bad...), settings: bothKinds}
			p.shuffle = func(all []netip.Addr) { rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) }
			var left []Refusal
			passes := 0
			for ; passes < 40 && len(left) != n.bad; passes++ {
				known := slices.DeleteFunc(slices.Clone(left), func(r Refusal) bool { return r.Untried })
				if len(known) == len(left) {
					known = nil
				}
				left = p.pass(t, w, contributions, known, left).LeftOut()
			}
			for _, r := range left {
				if !slices.Contains(bad, r.Address.String()) {
					t.Errorf("%d refused and %d taken, the refused first: %t: after %d passes %q is left out", n.bad, n.good, first, passes, r)
				}
			}
		}
	}
}
