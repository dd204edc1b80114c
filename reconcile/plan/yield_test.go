// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// after is what stands once a plan's first half is carried out.
func (w *world) after(p Plan) map[place]bool {
	half := newWorld(w.t, shopWeb)
	half.current, half.made = w.current, map[Object]string{}
	for i := range p.Removals {
		half.apply(&p.Removals[i])
	}
	return half.places()
}

// Of random plans: what only takes away gives nothing, takes from each object all that the
// first half takes, and nothing else changes.
func TestTakingAway(t *testing.T) {
	took := 0
	for seed := range dice.Seeds(t, 20) {
		rng := dice.From(seed, 31)
		f := &fleet{rng: rng, members: map[string]*member{}, flags: map[string]Contribution{}, steered: rng.IntN(2) == 0}
		w := newWorld(t, shopWeb)
		for step := range 30 {
			f.edit()
			desired := mergeOrNil(f.contributions(), w.current, bothKinds)
			p := Diff(w.current, desired, bothKinds)
			less := p.TakingAway(nil)
			if e := less.Effect(); len(e.Gives) > 0 || len(less.Stages) > 0 || less.Again {
				t.Fatalf("seed %d step %d: more than what takes away: %s", seed, step, textOf(t, less))
			}
			before, whole, without := w.places(), w.after(p), w.after(less)
			for at, wasReady := range before {
				isReady, stands := whole[at]
				nowReady, stays := without[at]
				if stays != stands || nowReady != (isReady && wasReady) {
					t.Fatalf("seed %d step %d: %v stood ready %t, stands %t ready %t, want %t ready %t: %s", seed, step, at, wasReady, stays, nowReady, stands, isReady && wasReady, textOf(t, p))
				}
				if !stays || nowReady != wasReady {
					took++
				}
			}
			if len(without) > len(before) {
				t.Fatalf("seed %d step %d: something came: %s", seed, step, textOf(t, less))
			}
			w.settle(desired, bothKinds, rng)
		}
	}
	if took < 100 {
		t.Errorf("%d addresses were taken away, which tells little", took)
	}
}

// Of random plans: without the writes of some objects those are as they stood, and the others
// as they were to be.
func TestExcept(t *testing.T) {
	for seed := range dice.Seeds(t, 20) {
		rng := dice.From(seed, 37)
		f := &fleet{rng: rng, members: map[string]*member{}, flags: map[string]Contribution{}}
		w := newWorld(t, shopWeb)
		for range 20 {
			f.edit()
			desired := mergeOrNil(f.contributions(), w.current, bothKinds)
			p := Diff(w.current, desired, bothKinds)
			busy := map[Object]bool{}
			for _, stage := range p.Sequence() {
				for i := range stage {
					if a := &stage[i]; a.Verb == Update {
						busy[a.Object()] = rng.IntN(2) == 0
					}
				}
			}
			rest := p.Except(func(o Object) bool { return busy[o] })
			left := map[Object]bool{}
			for _, stage := range rest.Sequence() {
				for i := range stage {
					left[stage[i].Object()] = true
				}
			}
			for _, stage := range p.Sequence() {
				for i := range stage {
					if o := stage[i].Object(); left[o] == busy[o] {
						t.Fatalf("seed %d: %s %s: busy %t, left %t", seed, o.Kind, o.Name, busy[o], left[o])
					}
				}
			}
			if rest.Again {
				t.Fatalf("seed %d: what is left out would be planned for ever", seed)
			}
			w.settle(desired, bothKinds, rng)
		}
	}
}

// What one version of an object takes and gives beside another.
func TestEffectOnObjects(t *testing.T) {
	http := []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: 8080}}
	admin := []syncer.Port{{Name: "admin", Protocol: syncer.TCP, Number: 9000}}
	endpoints := func(ports []syncer.Port, all ...string) *CurrentEndpoints {
		s := syncer.Subset{Ports: ports}
		for _, e := range pods("a", all...) {
			a := syncer.Address{Addr: e.IPs[0].Addr}
			if e.Ready {
				s.Ready = append(s.Ready, a)
			} else {
				s.NotReady = append(s.NotReady, a)
			}
		}
		return &CurrentEndpoints{Subsets: []syncer.Subset{s}}
	}
	slice := func(ports []syncer.Port, all ...string) *CurrentSlice {
		s := &CurrentSlice{Slice: syncer.Slice{Ports: ports}}
		for _, e := range pods("a", all...) {
			s.Endpoints = append(s.Endpoints, syncer.Endpoint{Addr: e.IPs[0].Addr, Ready: e.Ready})
		}
		return s
	}
	set := func(all []netip.Addr) map[netip.Addr]bool {
		out := map[netip.Addr]bool{}
		for _, addr := range all {
			out[addr] = true
		}
		return out
	}
	for _, c := range []struct {
		name             string
		ports, now       []syncer.Port
		from, to         []string
		takes, gives     []string
		nothing, deleted bool
	}{
		{"nothing", http, http, []string{"10.0.0.1"}, []string{"10.0.0.1"}, nil, nil, false, false},
		{"one leaves", http, http, []string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.2"}, []string{"10.0.0.1"}, nil, false, false},
		{"one comes", http, http, []string{"10.0.0.2"}, []string{"10.0.0.1", "10.0.0.2"}, nil, []string{"10.0.0.1"}, false, false},
		{"one turns unready", http, http, []string{"10.0.0.1", "10.0.0.2"}, []string{"10.0.0.1!", "10.0.0.2"}, []string{"10.0.0.1"}, nil, false, false},
		{"one turns ready", http, http, []string{"10.0.0.1!"}, []string{"10.0.0.1"}, nil, []string{"10.0.0.1"}, false, false},
		{"one for another", http, http, []string{"10.0.0.1"}, []string{"10.0.0.2"}, []string{"10.0.0.1"}, []string{"10.0.0.2"}, false, false},
		{"two change sides", http, http, []string{"10.0.0.1", "10.0.0.2!"}, []string{"10.0.0.1!", "10.0.0.2"}, []string{"10.0.0.1"}, []string{"10.0.0.2"}, false, false},
		{"other ports", http, admin, []string{"10.0.0.1"}, []string{"10.0.0.1"}, []string{"10.0.0.1"}, []string{"10.0.0.1"}, false, false},
		{"one port more", http, slices.Concat(http, admin), []string{"10.0.0.1"}, []string{"10.0.0.1"}, nil, []string{"10.0.0.1"}, false, false},
		{"one port less", slices.Concat(http, admin), http, []string{"10.0.0.1"}, []string{"10.0.0.1"}, []string{"10.0.0.1"}, nil, false, false},
		{"new", http, http, nil, []string{"10.0.0.1"}, nil, []string{"10.0.0.1"}, true, false},
		{"deleted", http, http, []string{"10.0.0.1", "10.0.0.2!"}, nil, []string{"10.0.0.1", "10.0.0.2"}, nil, false, true},
		{"without ports", nil, nil, []string{"10.0.0.1"}, []string{"10.0.0.2"}, []string{"10.0.0.1"}, []string{"10.0.0.2"}, false, false},
	} {
		oldEndpoints, newEndpoints := endpoints(c.ports, c.from...), endpoints(c.now, c.to...)
		oldSlice, newSlice := slice(c.ports, c.from...), slice(c.now, c.to...)
		if c.nothing {
			oldEndpoints, oldSlice = nil, nil
		}
		if c.deleted {
			newEndpoints, newSlice = nil, nil
		}
		for kind, got := range map[Kind]Effect{KindEndpoints: EffectOnEndpoints(oldEndpoints, newEndpoints), KindEndpointSlice: EffectOnSlice(oldSlice, newSlice)} {
			if !maps.Equal(set(got.Takes), set(parsed(c.takes))) || !maps.Equal(set(got.Gives), set(parsed(c.gives))) {
				t.Errorf("%s: %s take %v and give %v, want %v and %v", c.name, kind, got.Takes, got.Gives, c.takes, c.gives)
			}
		}
	}
}
