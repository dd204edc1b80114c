// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"

	utilnet "k8s.io/utils/net"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestAddressesAreReadAsUpstreamReadsThem compares the lenient parser on texts
// that are nearly addresses.
func TestAddressesAreReadAsUpstreamReadsThem(t *testing.T) {
	seed := dice.Seed(t)
	g := newGenerator(seed, 0)
	valid := 0
	for range 300_000 {
		text := g.addressText()
		want := utilnet.ParseIPSloppy(text)
		got, ok := syncer.ParseAddr(text)
		if ok != (want != nil) || ok && got.String() != want.String() {
			t.Fatalf("seed %d: %q is %v, %v; upstream %v", seed, text, got, ok, want)
		}
		if ok {
			valid++
		}
	}
	t.Logf("%d of them addresses", valid)
}

// addressText returns an address that is broken in up to two places.
func (g *generator) addressText() string {
	text := []byte(g.ip(g.IntN(500), g.chance(30)))
	for range g.IntN(3) {
		if len(text) == 0 {
			break
		}
		i := g.IntN(len(text))
		if g.chance(50) {
			text[i] = "0123456789abcf.:%"[g.IntN(17)]
		} else {
			text = append(text[:i], append([]byte{"0:.f"[g.IntN(4)]}, text[i:]...)...)
		}
	}
	return string(text)
}
