// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// sized returns subsets with that many ready and not-ready addresses.
func sized(sizes ...[2]int) []Subset {
	var subsets []Subset
	next := uint32(10 << 24)
	list := func(n int) (out []Address) {
		for range n {
			next++
			out = append(out, Address{Addr: netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, next)))})
		}
		return out
	}
	for i, size := range sizes {
		subsets = append(subsets, Subset{Ready: list(size[0]), NotReady: list(size[1]), Ports: []Port{{Name: "p", Protocol: TCP, Number: int32(80 + i)}}})
	}
	return subsets
}

func sizes(subsets []Subset) [][2]int {
	var out [][2]int
	for _, s := range subsets {
		out = append(out, [2]int{len(s.Ready), len(s.NotReady)})
	}
	return out
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		name      string
		in, want  [][2]int
		truncated bool
	}{
		{"below capacity", [][2]int{{10, 0}, {0, 50}}, [][2]int{{10, 0}, {0, 50}}, false},
		{"999", [][2]int{{999, 0}}, [][2]int{{999, 0}}, false},
		{"exactly at capacity", [][2]int{{600, 200}, {200, 0}}, [][2]int{{600, 200}, {200, 0}}, false},
		{"1001", [][2]int{{1001, 0}}, [][2]int{{1000, 0}}, true},
		{"ready ones fit, not-ready ones are cut", [][2]int{{100, 1000}}, [][2]int{{100, 900}}, true},
		{"ready ones are cut in proportion, not-ready ones all go", [][2]int{{205, 0}, {400, 100}, {402, 150}, {400, 0}, {693, 0}},
			[][2]int{{98, 0}, {191, 0}, {192, 0}, {191, 0}, {328, 0}}, true},
		{"not-ready ones are cut in proportion", [][2]int{{50, 101}, {50, 200}, {50, 200}, {65, 201}, {65, 298}},
			[][2]int{{50, 73}, {50, 144}, {50, 144}, {65, 145}, {65, 214}}, true},
		{"a subset that loses all addresses is dropped (D2)", [][2]int{{1000, 0}, {0, 3}}, [][2]int{{1000, 0}}, true},
		{"the first subsets take what rounding adds", [][2]int{{999, 0}, {2, 0}}, [][2]int{{999, 0}, {1, 0}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := sized(c.in...)
			got, truncated := Truncate(in, EndpointsCapacity)
			if !slices.Equal(sizes(got), c.want) || truncated != c.truncated {
				t.Errorf("%v truncated %v, want %v %v", sizes(got), truncated, c.want, c.truncated)
			}
			if !slices.Equal(sizes(in), c.in) {
				t.Errorf("input changed to %v", sizes(in))
			}
			// After a write the current Endpoints are compared with this, so it must be stable (D4).
			if again, truncated := Truncate(got, EndpointsCapacity); truncated || !slices.Equal(sizes(again), c.want) {
				t.Errorf("truncating again: %v %v", sizes(again), truncated)
			}
		})
	}
}

func TestTruncateKeepsTheFirstAddresses(t *testing.T) {
	in := sized([2]int{1500, 0})
	got, _ := Truncate(in, EndpointsCapacity)
	if !slices.Equal(got[0].Ready, in[0].Ready[:1000]) {
		t.Error("not the first thousand")
	}
	if got[0].Ports[0] != in[0].Ports[0] {
		t.Error("ports lost")
	}
}
