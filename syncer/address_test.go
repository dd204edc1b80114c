// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

// TestAddressesCompareAsTheirTexts: sorting by rank must be sorting by text.
func TestAddressesCompareAsTheirTexts(t *testing.T) {
	r := dice.New(t)
	octets := []byte{0, 1, 2, 9, 10, 11, 19, 20, 25, 99, 100, 101, 199, 200, 250, 255}
	random := func() netip.Addr {
		if r.IntN(4) == 0 {
			return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(r.IntN(2))<<56), uint64(r.IntN(1<<12)))))
		}
		var o [4]byte
		for i := range o {
			o[i] = octets[r.IntN(len(octets))]
		}
		return netip.AddrFrom4(o)
	}
	for range 100_000 {
		a, b := random(), random()
		if got, want := CompareAddr(a, b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("CompareAddr(%v, %v) = %d, want %d", a, b, got, want)
		}
	}
}
