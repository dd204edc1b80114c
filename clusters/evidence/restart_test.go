// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// memberWords are lists of a member, in the words of transcripts.
type memberWords struct {
	rng                               *rand.Rand
	services, pods, endpoints, slices []string
	manual                            []string // Services
}

func (w *memberWords) one(list ...string) string { return list[w.rng.IntN(len(list))] }

func (w *memberWords) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func newMemberWords(rng *rand.Rand, sharing bool) *memberWords {
	w := &memberWords{rng: rng}
	for i, name := range []string{"s1", "s2", "s3", "s4"} {
		line := name
		switch {
		case w.oneIn(6):
			continue
		case w.oneIn(5):
			w.writeByHand(name)
			line += " by-hand"
		case w.oneIn(4):
			line += " selects everything"
		default:
			line += " selects " + w.one("a", "b", "c")
		}
		if i > 0 && w.oneIn(4) {
			line += " as=s1"
		}
		if w.oneIn(5) {
			line += " publishes"
		}
		w.services = append(w.services, line)
	}
	for i := range 3 + rng.IntN(15) {
		n := i + 1
		if sharing && w.oneIn(6) { // another has it, or had
			n = 1 + rng.IntN(n)
		}
		p := fmt.Sprintf("p%d 10.0.0.%d %s node=n%d", i, n, w.one("a", "b", "c"), rng.IntN(3))
		for _, word := range []string{" not-ready", " terminating", " host"} {
			if w.oneIn(7) {
				p += word
			}
		}
		w.pods = append(w.pods, p)
	}
	return w
}

// writeByHand writes endpoints for a Service, in Endpoints or in a slice or in both.
func (w *memberWords) writeByHand(service string) {
	w.manual = append(w.manual, service)
	if !w.oneIn(3) {
		line := service
		for range w.rng.IntN(4) {
			line += fmt.Sprintf(" 10.0.0.%d", 1+w.rng.IntN(30))
		}
		w.endpoints = append(w.endpoints, line)
	}
	if w.oneIn(3) {
		w.slices = append(w.slices, fmt.Sprintf("%s-x of %s 10.0.0.%d", service, service, 1+w.rng.IntN(30)))
	}
}

// lists are those that a start needs, in any order, and then those of what is written by hand.
func (w *memberWords) lists() []string {
	lines := []string{
		"list services @10: " + strings.Join(w.services, ", "),
		"list pods @10: " + strings.Join(w.pods, ", "),
		"list nodes @10: n0 za, n1 zb, n2 zc",
	}
	w.rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	if len(w.manual) > 0 {
		of := " @10 of " + strings.Join(w.manual, ", ") + ": "
		lines = append(lines, "list endpoints"+of+strings.Join(w.endpoints, ", "), "list slices"+of+strings.Join(w.slices, ", "))
	}
	return lines
}

// standing is what the member gives to a replica, as it is read back from the ingress cluster.
// Endpoints that are written by hand may name the pods that have their addresses.
func (w *memberWords) standing(s *State, replica syncer.Key) (out Standing) {
	for _, c := range store.Peek(s.Share(replica).Inputs) {
		out.Sources = append(out.Sources, c.Source)
		if s.store.Publishes(c.Source) {
			out.Publishing = append(out.Publishing, c.Source)
		}
		if s.store.IsManual(c.Source) {
			if out.HandWritten == nil {
				out.HandWritten = map[syncer.Key][]string{}
			}
			out.HandWritten[c.Source] = c.WrittenIn
			w.nameTargets(s, &out, c.Endpoints)
		}
		out.Endpoints = append(out.Endpoints, c.Endpoints...)
	}
	return out
}

// nameTargets has hand-written endpoints name pods that have their addresses.
func (w *memberWords) nameTargets(s *State, out *Standing, endpoints []syncer.Endpoint) {
	for i := range endpoints {
		e := &endpoints[i]
		for _, p := range s.store.Pods() {
			if store.HasAddress(p, e.Addr) && w.oneIn(2) {
				e.Target = syncer.TargetRef{Kind: "Pod", Key: p.Key, UID: p.UID}
				out.WrittenOf = append(out.WrittenOf, e.Addr)
			}
		}
	}
}

// servedOf are the addresses that take traffic of what stands, or of what is given instead.
func servedOf(s *State, replica syncer.Key, stands []syncer.Endpoint) map[netip.Addr]bool {
	serve := map[netip.Addr]bool{}
	share := s.Share(replica)
	add := func(endpoints []syncer.Endpoint) {
		for i := range endpoints {
			serve[endpoints[i].Addr] = serve[endpoints[i].Addr] || endpoints[i].Ready
		}
	}
	stay := slices.DeleteFunc(slices.Clone(stands), func(e syncer.Endpoint) bool { return slices.Contains(share.Gone, e.Addr) })
	if share.Unseen || !s.synced {
		add(stay)
	}
	if s.synced {
		for _, c := range store.Peek(share.Inputs) {
			if add(c.Endpoints); c.Pending {
				add(stay)
			}
		}
	}
	return serve
}

// TestRestartTakesNothing: while nothing changes, a restart takes no address out of traffic,
// asks for nothing and keeps nothing in the end, in whatever order lists come, also where pods
// share addresses.
func TestRestartTakesNothing(t *testing.T) {
	for seed := range dice.Seeds(t, 1000) {
		w := newMemberWords(dice.From(seed, 22), true)
		do := func(r *replay, line string) {
			if err := r.line("0s " + line); err != nil {
				t.Fatalf("%d: %s: %v", seed, line, err)
			}
		}
		running := newReplay()
		for _, line := range append([]string{"start"}, w.lists()...) {
			do(running, line)
		}
		started := newReplay()
		started.latest = 10
		for _, replica := range running.state.store.Replicas() {
			started.standing[replica] = w.standing(running.state, replica)
		}
		stood := maps.Clone(started.standing)
		do(started, "start")
		for _, line := range append(w.lists(), "pass") {
			if line == "pass" {
				started.step(Tick{})
			} else {
				do(started, line)
			}
			for replica, standing := range stood {
				serve := servedOf(started.state, replica, standing.Endpoints)
				for addr, served := range servedOf(running.state, replica, nil) {
					if served && !serve[addr] {
						t.Fatalf("%d: %v loses %v after %q\n%q\n%q\n%q\n%q", seed, replica, addr, line, w.services, w.pods, w.endpoints, w.slices)
					}
				}
			}
			if len(started.reads) > 0 {
				t.Fatalf("%d: asks for %v after %q\n%q\n%q", seed, started.reads, line, w.services, w.pods)
			}
		}
		if holds := started.state.Holds(); len(started.state.baseline.replicas)+len(holds) > 0 {
			t.Fatalf("%d: something is kept: %v\n%q\n%q", seed, holds, w.services, w.pods)
		}
	}
}
