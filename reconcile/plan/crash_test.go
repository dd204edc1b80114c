// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// place is an address in one of the kinds.
type place struct {
	kind Kind
	addr netip.Addr
}

// places are the addresses that stand, each with whether it is ready.
func (w *world) places() map[place]bool {
	all := map[place]bool{}
	if e := w.current.Endpoints; e != nil && e.Owned {
		for _, s := range e.Subsets {
			for _, a := range s.Ready {
				all[place{KindEndpoints, a.Addr}] = true
			}
			for _, a := range s.NotReady {
				all[place{KindEndpoints, a.Addr}] = false
			}
		}
	}
	for i := range w.current.Slices {
		s := &w.current.Slices[i]
		for j := range s.Endpoints {
			if at := (place{KindEndpointSlice, s.Endpoints[j].Addr}); s.Owned {
				all[at] = all[at] || s.Endpoints[j].Ready
			}
		}
	}
	return all
}

// crash plays random roll-outs in members with one Service each. Now and then the
// process ends in the middle of a plan, and some members cannot be seen by the next
// one: of their addresses none is lost by that, and none comes back.
func crash(t *testing.T, seed uint64, steps int) {
	rng := dice.From(seed, 11)
	f := &fleet{rng: rng, members: map[string]*member{}}
	settings := bothKinds
	settings.Capacity = 1000
	for i := range 1 + rng.IntN(3) {
		cluster := fmt.Sprint("idc-", string(rune('a'+i)))
		f.members[cluster] = &member{service: &syncer.Service{
			Key: shopWeb, UID: cluster, Created: int64(i), Ports: portPool[:1], Selector: map[string]string{"app": "web"},
			ClusterIP: "10.96.0.1", IPFamilies: []syncer.Family{syncer.IPv4},
		}}
	}
	w := newWorld(t, shopWeb)
	for step := range steps {
		for cluster, m := range f.members {
			for range rng.IntN(3) {
				f.editPod(cluster, m)
			}
		}
		contributions := f.contributions()
		p := Diff(w.current, mergeOrNil(contributions, w.current, settings), settings)
		w.partly(p, rng)
		var after []Contribution
		unseen := map[byte]bool{}
		for _, c := range contributions {
			if rng.IntN(2) == 0 {
				after = append(after, c)
				continue
			}
			unseen[c.Cluster[len(c.Cluster)-1]-'a'] = true
			after = append(after, expected(c.Cluster, w)...)
		}
		before := w.places()
		if desired := mergeOrNil(after, w.current, settings); desired != nil {
			w.execute(Diff(w.current, desired, settings), rng)
		}
		now := w.places()
		for at, ready := range before {
			if is, stands := now[at]; unseen[at.addr.As4()[1]] && (!stands || is != ready) {
				t.Fatalf("seed %d step %d: %s %s, ready %v, is there %v, ready %v; unseen %v", seed, step, at.kind, at.addr, ready, stands, is, unseen)
			}
		}
		w.settle(mergeOrNil(contributions, w.current, settings), settings, rng)
	}
}

// partly executes a plan up to some point: what one stage does is done at once, so
// any of it may be missing.
func (w *world) partly(p Plan, rng *rand.Rand) {
	w.t.Helper()
	w.made = map[Object]string{}
	last := rng.IntN(len(p.Sequence()) + 1)
	for i, stage := range p.Sequence() {
		for j := range stage {
			if i < last || i == last && rng.IntN(2) == 0 {
				w.apply(&stage[j])
			}
		}
	}
}

func TestCrashLosesNothingAndBringsNothingBack(t *testing.T) {
	for seed := range dice.Seeds(t, 60) {
		crash(t, seed, 30)
	}
}

func FuzzCrash(f *testing.F) {
	f.Add(uint64(1), uint8(30))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) { crash(t, seed, int(steps)) })
}
