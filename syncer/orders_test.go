// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// checkOrder holds a comparison against what sorting needs: it is antisymmetric and
// transitive, and what it calls equal is the same.
func checkOrder[T any](t *testing.T, values []T, compare func(a, b T) int, same func(a, b T) bool) {
	t.Helper()
	for _, a := range values {
		for _, b := range values {
			if ab, ba := compare(a, b), compare(b, a); cmp.Compare(ab, 0) != -cmp.Compare(ba, 0) {
				t.Fatalf("%+v and %+v: %d one way, %d the other", a, b, ab, ba)
			}
			if (compare(a, b) == 0) != same(a, b) {
				t.Fatalf("%+v and %+v compare as %d", a, b, compare(a, b))
			}
		}
	}
	sorted := slices.SortedFunc(slices.Values(values), compare)
	for i := range sorted {
		for j := range i {
			if compare(sorted[j], sorted[i]) > 0 {
				t.Fatalf("%+v comes after %+v, and before it", sorted[j], sorted[i])
			}
		}
	}
}

func TestOrdersAreOrders(t *testing.T) {
	for seed := range dice.Seeds(t, 30) {
		r := dice.From(seed, 13)
		var ports []Port
		var endpoints []Endpoint
		var keys []Key
		for range 30 {
			s := throw(r, 40)
			ports = append(ports, s.port())
			keys = append(keys, Key{chooseFrom(s, "", "a", "a-b", "b"), chooseFrom(s, "", "a", "b-a", "c")})
			endpoints = append(endpoints, Endpoint{Addr: s.addr(), Ready: s.yes(),
				Target: TargetRef{Kind: chooseFrom(s, "Pod", ""), Key: keys[len(keys)-1], UID: chooseFrom(s, "", "u", "v")}})
		}
		checkOrder(t, ports, Port.Compare, func(a, b Port) bool { return a == b })
		checkOrder(t, keys, Key.Compare, func(a, b Key) bool { return a == b })
		checkOrder(t, endpoints, func(a, b Endpoint) int { return CompareEndpoints(&a, &b) },
			func(a, b Endpoint) bool { return a.Addr == b.Addr && a.Target == b.Target })
	}
}

// TestASliceStaysWhatItIs: through any history a slice of a name keeps its family and
// ports, and what stays wanted and unchanged is not moved to another slice.
func TestASliceStaysWhatItIs(t *testing.T) {
	for seed := range dice.Seeds(t, 1000) {
		r := dice.From(seed, 14)
		options := PackOptions{Service: Key{"ns", "svc"}, Cluster: "c", MaxEndpoints: 1 + r.IntN(8)}
		var current []Slice
		desired := throw(r, 300).endpoints()
		for range 8 {
			desired = drift(r, desired)
			packed := Pack(current, desired, []Family{IPv4}, options)
			for _, before := range current {
				i := slices.IndexFunc(packed, func(s Slice) bool { return s.Name == before.Name })
				if i < 0 {
					continue
				}
				after := packed[i]
				if after.Family != before.Family || portsKey(after.Ports) != portsKey(before.Ports) {
					t.Fatalf("seed %d: %s was %s %v and is %s %v", seed, before.Name, before.Family, before.Ports, after.Family, after.Ports)
				}
			}
			home := homes(packed)
			for id, name := range homes(current) {
				if now, there := home[id]; there && now != name {
					t.Fatalf("seed %d: %s moved from %s to %s", seed, id, name, now)
				}
			}
			current = packed
		}
	}
}

// homes tells the slice of each endpoint.
func homes(list []Slice) map[string]string {
	home := map[string]string{}
	for _, s := range list {
		for _, e := range s.Endpoints {
			home[fmt.Sprint(s.Family, portsKey(s.Ports), e.Addr, e.Target.UID)] = s.Name
		}
	}
	return home
}

// drift lets some endpoints leave, some flip, and some come.
func drift(r *rand.Rand, desired []Endpoint) []Endpoint {
	var out []Endpoint
	for _, e := range desired {
		switch r.IntN(8) {
		case 0:
			continue
		case 1:
			e.Ready = !e.Ready
		}
		out = append(out, e)
	}
	return append(out, throw(r, r.IntN(60)).endpoints()...)
}

func TestNamesOfSlicesTellGroupsApart(t *testing.T) {
	seen := map[string]string{}
	for seed := range dice.Seeds(t, 3000) {
		s := throw(dice.From(seed, 15), 60)
		service := Key{chooseFrom(s, "ns", "n"), chooseFrom(s, "a", "a-b", "a-b-c", strings.Repeat("x", 63))}
		cluster, family := chooseFrom(s, "c", "b-c", "c-d"), chooseFrom(s, IPv4, IPv6)
		ports := sortedPorts([]Port{s.port(), s.port()}[:s.n(3)])
		id := fmt.Sprintf("%v %s %s %#v", service, cluster, family, ports)
		stem := sliceStem(service, cluster, family, ports)
		if other, taken := seen[stem]; taken && other != id {
			t.Fatalf("seed %d: %s is the stem of\n%s and\n%s", seed, stem, id, other)
		}
		seen[stem] = id
		if !strings.HasPrefix(stem, service.Name+"-"+cluster+"-") {
			t.Fatalf("seed %d: %s does not begin with the Service's and the member's name", seed, stem)
		}
		if again := sliceStem(service, cluster, family, slices.Clone(ports)); again != stem {
			t.Fatalf("seed %d: %s, then %s", seed, stem, again)
		}
	}
	if len(seen) < 300 {
		t.Errorf("only %d groups", len(seen))
	}
}

func TestTheNameOfASliceTellsItsCluster(t *testing.T) {
	service := Key{testNamespace, "web-v1"}
	for _, c := range []struct{ slice, want string }{
		{sliceStem(service, "idc-a", IPv4, nil) + "-0", "idc-a"},
		{sliceStem(service, "web", IPv6, []Port{httpPort}) + "-12", "web"},
		{"web-v1-x7k2p", ""}, {"web-v1", ""}, {"web", ""}, {"web-v1-idc-a-0123456789", ""}, {"web-v1--0123456789-0", ""}, {"", ""},
	} {
		if got := ClusterOf(service.Name, c.slice); got != c.want {
			t.Errorf("the slice %q is of cluster %q, want %q", c.slice, got, c.want)
		}
	}
}
