// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// FuzzPack packs a random change onto slices that random changes left behind.
func FuzzPack(f *testing.F) {
	for _, seed := range []string{"", "abcdefgh", "the quick brown fox jumps over the lazy dog", strings.Repeat("\xff\x00\x7f", 50)} {
		f.Add([]byte(seed), uint8(3))
	}
	r := dice.New(f)
	for range 50 {
		seed := make([]byte, 300)
		for i := range seed {
			seed[i] = byte(r.Uint32())
		}
		f.Add(seed, uint8(r.UintN(9)))
	}
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		s := &source{data}
		options := PackOptions{Service: Key{"ns", "svc"}, Cluster: "c", MaxEndpoints: 1 + int(limit%8)}
		families := chooseFrom(s, []Family{IPv4}, []Family{IPv4, IPv6}, nil)
		var current []Slice
		for range 6 {
			desired := s.endpoints()
			before := copySlices(current)
			packed := Pack(current, desired, families, options)
			if !reflect.DeepEqual(current, before) {
				t.Fatal("Pack changed its input")
			}
			checkSlices(t, packed, desired, families, options.MaxEndpoints)
			if !reflect.DeepEqual(Pack(current, desired, families, options), packed) {
				t.Fatal("not deterministic")
			}
			if c, u, d := writes(packed, Pack(packed, desired, families, options)); c+u+d != 0 {
				t.Fatalf("packing again: %d creates, %d updates, %d deletes", c, u, d)
			}
			checkFewestWrites(t, current, packed, desired, options.MaxEndpoints)
			current = packed
		}
	})
}

func (s *source) endpoints() []Endpoint {
	lists := [][]Port{{httpPort}, {httpPort, dbPort}, nil}
	var endpoints []Endpoint
	for range s.n(40) {
		a := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 10<<24|uint32(1+s.n(30)))))
		if s.n(4) == 3 {
			a = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(1 + s.n(10))})
		}
		endpoints = append(endpoints, Endpoint{Addr: a, Ready: s.yes(), Ports: lists[s.n(10)/4], Target: TargetRef{UID: chooseFrom(s, "", "", "x")},
			Only: chooseFrom(s, 0, 0, 0, KindEndpoints, KindEndpointSlices)})
	}
	return endpoints
}

func copySlices(list []Slice) []Slice {
	out := slices.Clone(list)
	for i := range out {
		out[i].Endpoints = slices.Clone(out[i].Endpoints)
	}
	return out
}

// place identifies an endpoint together with its group.
type place struct {
	family Family
	ports  string
	addr   netip.Addr
	target TargetRef
}

// portsKey tells sets of ports apart, application protocols included.
func portsKey(ports []Port) string { return fmt.Sprintf("%#v", sortedPorts(ports)) }

func wantedPlaces(desired []Endpoint) map[place]bool {
	wanted := map[place]bool{}
	for i := range desired {
		if e := &desired[i]; e.In(KindEndpointSlices) {
			wanted[place{familyOf(e.Addr), portsKey(e.Ports), e.Addr, e.Target}] = true
		}
	}
	return wanted
}

// checkSlices: addresses are conserved, slices hold no more than they may, one
// family and one set of ports each, names are unique and begin as they should.
func checkSlices(t *testing.T, packed []Slice, desired []Endpoint, families []Family, limit int) {
	t.Helper()
	wanted := wantedPlaces(desired)
	names := map[string]bool{}
	seen := map[Family]bool{}
	for _, s := range packed {
		seen[s.Family] = true
		if len(s.Endpoints) > limit {
			t.Errorf("%d endpoints in a slice of at most %d", len(s.Endpoints), limit)
		}
		if names[s.Name] || !isSubdomain(s.Name) {
			t.Errorf("name %q: repeated or invalid", s.Name)
		}
		names[s.Name] = true
		for _, e := range s.Endpoints {
			at := place{s.Family, portsKey(s.Ports), e.Addr, e.Target}
			if !wanted[at] {
				t.Errorf("not wanted, or twice: %+v", at)
			}
			delete(wanted, at)
		}
	}
	if len(wanted) != 0 {
		t.Errorf("%d endpoints lost: %v", len(wanted), wanted)
	}
	for _, family := range families {
		if !seen[family] {
			t.Errorf("no slice for %s", family)
		}
	}
}

// checkFewestWrites counts what no packing can avoid: a write to each slice
// that holds an endpoint that leaves or changes, and, for each group, as many
// more as the endpoints need that do not fit into those.
func checkFewestWrites(t *testing.T, current, packed []Slice, desired []Endpoint, limit int) {
	t.Helper()
	type tally struct{ touched, room, left int }
	groups := map[string]*tally{}
	key := func(family Family, ports []Port) string { return string(family) + portsKey(ports) }
	latest := map[place]*Endpoint{}
	for i := range desired {
		e := &desired[i]
		at := place{familyOf(e.Addr), portsKey(e.Ports), e.Addr, e.Target}
		if !e.In(KindEndpointSlices) || latest[at] != nil {
			continue
		}
		latest[at] = e
		k := key(familyOf(e.Addr), e.Ports)
		if groups[k] == nil {
			groups[k] = &tally{}
		}
		groups[k].left++
	}
	forced := 0
	for _, s := range current {
		g := groups[key(s.Family, s.Ports)]
		if g == nil {
			continue // the group is gone: emptied or deleted, see below
		}
		retained, changed := 0, false
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			w := latest[place{s.Family, portsKey(s.Ports), e.Addr, e.Target}]
			if w == nil || !w.Equal(e) {
				changed = true
			}
			if w != nil {
				retained++
			}
		}
		g.left -= retained
		if changed {
			g.touched++
			g.room += limit - retained
		}
	}
	for _, g := range groups {
		forced += g.touched + (max(0, g.left-g.room)+limit-1)/limit
	}
	creates, updates, deletes := writes(current, packed)
	for _, s := range current {
		if groups[key(s.Family, s.Ports)] == nil {
			if at := slices.IndexFunc(packed, func(p Slice) bool { return p.Name == s.Name }); at < 0 || len(s.Endpoints) > 0 {
				forced++
			}
		} else if len(s.Endpoints) == 0 && !slices.ContainsFunc(packed, func(p Slice) bool { return p.Name == s.Name }) {
			forced++ // an empty slice goes as soon as its family has others
		}
	}
	for _, p := range packed {
		if groups[key(p.Family, p.Ports)] == nil && !slices.ContainsFunc(current, func(s Slice) bool { return s.Name == p.Name }) {
			forced++ // a placeholder
		}
	}
	if got := creates + updates + deletes; got > forced {
		t.Errorf("%d writes (%d creates, %d updates, %d deletes), %d would do", got, creates, updates, deletes, forced)
	}
}
