// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// What people write by hand, against a twin that says what must follow.

// written is what one Service's owner wrote.
type written struct {
	subsets    []Subset
	slices     []Slice
	skipMirror bool
	allowed    []netip.Prefix
}

// scribble writes mostly what an API server takes, with few addresses and ports, so
// that subsets and slices speak of the same; a twentieth of it is garbage.
func scribble(r *rand.Rand) written {
	w := written{skipMirror: r.IntN(6) == 0}
	if r.IntN(4) == 0 {
		w.allowed = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30"), netip.MustParsePrefix("fd00::/16")}
	}
	for range r.IntN(4) {
		s := Subset{Ports: scribblePorts(r)}
		for range r.IntN(4) {
			s.Ready = append(s.Ready, scribbleAddress(r))
		}
		for range r.IntN(3) {
			s.NotReady = append(s.NotReady, scribbleAddress(r))
		}
		w.subsets = append(w.subsets, s)
	}
	for i := range r.IntN(3) {
		s := Slice{Name: fmt.Sprint("slice-", i), Family: IPv4, Ports: scribblePorts(r)}
		switch r.IntN(8) {
		case 0:
			s.Family = "FQDN"
		case 1:
			s.Family = IPv6
		}
		for range r.IntN(4) {
			a := scribbleAddress(r)
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: a.Addr, NodeName: a.NodeName, Target: a.Target, Ready: r.IntN(3) > 0, Serving: r.IntN(3) > 0})
		}
		w.slices = append(w.slices, s)
	}
	return w
}

func scribbleAddress(r *rand.Rand) Address {
	a := Address{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + r.IntN(6))})}
	switch r.IntN(20) {
	case 0:
		a.Addr = netip.MustParseAddr("127.0.0.1")
	case 1:
		a.Addr = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(1 + r.IntN(3))})
	case 2:
		a.NodeName = "No/Node"
	case 3:
		a.Target = TargetRef{Kind: "Pod", Key: Key{testNamespace, "p"}, UID: "u"}
	}
	return a
}

func scribblePorts(r *rand.Rand) (ports []Port) {
	for _, n := range r.Perm(3)[:1+r.IntN(2)] {
		ports = append(ports, Port{Name: fmt.Sprint("p", n), Protocol: TCP, Number: int32(80 + n)})
	}
	if r.IntN(10) == 0 {
		ports = append(ports, Port{Name: "p9", Protocol: TCP, Number: 70_000})
	}
	return ports
}

// goodPorts are those that an API server takes.
func goodPorts(ports []Port) (good []Port) {
	for _, p := range ports {
		if twinValid(p) {
			good = append(good, p)
		}
	}
	return good
}

func (w *written) good(a netip.Addr) bool {
	return !a.IsLoopback() && (len(w.allowed) == 0 || slices.ContainsFunc(w.allowed, func(p netip.Prefix) bool { return p.Contains(a) }))
}

// said is what one kind of object says of an address and port: it is there, and ready.
type said map[string]bool

func at(a netip.Addr, target TargetRef, p Port) string { return fmt.Sprint(a, target.UID, p) }

// bySubsets is what the Endpoints say; not ready beats ready.
func (w *written) bySubsets() said {
	facts := said{}
	for _, s := range w.subsets {
		for _, p := range goodPorts(s.Ports) {
			for i, a := range slices.Concat(s.Ready, s.NotReady) {
				if id := at(a.Addr, a.Target, p); w.good(a.Addr) {
					before, known := facts[id]
					facts[id] = i < len(s.Ready) && (before || !known)
				}
			}
		}
	}
	return facts
}

// bySlices is what the slices say; of an address that is in several, whether one of
// them calls it ready.
func (w *written) bySlices() said {
	facts := said{}
	for _, s := range w.slices {
		if s.Family != IPv4 && s.Family != IPv6 {
			continue
		}
		for _, p := range goodPorts(s.Ports) {
			for _, e := range s.Endpoints {
				if id := at(e.Addr, e.Target, p); w.good(e.Addr) {
					facts[id] = facts[id] || e.Ready
				}
			}
		}
	}
	return facts
}

// told is what endpoints say in objects of a kind.
func told(endpoints []Endpoint, kind Kinds) said {
	facts := said{}
	for i := range endpoints {
		if e := &endpoints[i]; e.In(kind) {
			for _, p := range e.Ports {
				id := at(e.Addr, e.Target, p)
				facts[id] = facts[id] || e.Ready
			}
		}
	}
	return facts
}

func TestHandWrittenSaysWhatWasWritten(t *testing.T) {
	for seed := range dice.Seeds(t, 5000) {
		w := scribble(dice.From(seed, 10))
		c := HandWritten(handService(), w.subsets, w.slices, w.skipMirror, Options{AllowedCIDRs: w.allowed})
		subsets, sliced := w.bySubsets(), w.bySlices()
		if got := told(c.Endpoints, KindEndpoints); !maps.Equal(got, subsets) {
			t.Fatalf("seed %d: Endpoints of %q say\n%v\nwant\n%v", seed, showSubsets(w.subsets), got, subsets)
		}
		got := told(c.Endpoints, KindEndpointSlices)
		for id, ready := range sliced {
			if is, there := got[id]; !there || ready && !is {
				t.Fatalf("seed %d: a slice says %s (ready: %v), ours: %v, %v", seed, id, ready, there, is)
			}
		}
		for id, ready := range subsets {
			is, there := got[id]
			_, both := sliced[id]
			if !both && there == w.skipMirror {
				t.Fatalf("seed %d: Endpoints say %s, in slices: %v, skip-mirror: %v", seed, id, there, w.skipMirror)
			}
			if !both && there && is != ready {
				t.Fatalf("seed %d: Endpoints say %s (ready: %v), slices: %v", seed, id, ready, is)
			}
		}
		for id := range got {
			_, inSubsets := subsets[id]
			if _, inSlices := sliced[id]; !inSlices && (!inSubsets || w.skipMirror) {
				t.Fatalf("seed %d: slices say %s, and nobody wrote that", seed, id)
			}
		}
	}
}

// TestHandWrittenSubsetsAreVerbatim: what an API server takes stays as it is, in its
// order and with its repetitions.
func TestHandWrittenSubsetsAreVerbatim(t *testing.T) {
	for seed := range dice.Seeds(t, 3000) {
		w := scribble(dice.From(seed, 11))
		var want []string
		for _, s := range w.subsets {
			accepted := Subset{Ports: goodPorts(s.Ports)}
			for _, a := range s.Ready {
				if w.good(a.Addr) {
					accepted.Ready = append(accepted.Ready, a)
				}
			}
			for _, a := range s.NotReady {
				if w.good(a.Addr) {
					accepted.NotReady = append(accepted.NotReady, a)
				}
			}
			if len(accepted.Ready)+len(accepted.NotReady) > 0 && len(accepted.Ports) > 0 {
				want = append(want, showSubsets([]Subset{accepted})...)
			}
		}
		c := HandWritten(handService(), w.subsets, w.slices, w.skipMirror, Options{AllowedCIDRs: w.allowed})
		if got := showSubsets(c.Subsets); !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n got %q\nwant %q", seed, got, want)
		}
	}
}

// TestEveryRefusalIsReported: what was written and is not there is among the rejections.
func TestEveryRefusalIsReported(t *testing.T) {
	for seed := range dice.Seeds(t, 3000) {
		w := scribble(dice.From(seed, 12))
		c := HandWritten(handService(), w.subsets, w.slices, w.skipMirror, Options{AllowedCIDRs: w.allowed})
		reported := map[string]bool{}
		for _, r := range c.Rejected {
			reported[r.Address] = true
		}
		for _, s := range w.subsets {
			for _, a := range slices.Concat(s.Ready, s.NotReady) {
				if !w.good(a.Addr) && len(goodPorts(s.Ports)) > 0 && !reported[a.Addr.String()] {
					t.Fatalf("seed %d: %v was left out, and only %+v is reported", seed, a.Addr, c.Rejected)
				}
			}
			for _, p := range s.Ports {
				if !twinValid(p) && !reported[p.String()] {
					t.Fatalf("seed %d: port %v was left out, and only %+v is reported", seed, p, c.Rejected)
				}
			}
		}
	}
}
