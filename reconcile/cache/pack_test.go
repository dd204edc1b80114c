// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/syncer"
)

// TestPack reads back what was packed, whatever its texts are.
func TestPack(t *testing.T) {
	r := dice.New(t)
	text := func() string { return strings.Repeat("\x00é,x"[r.IntN(4):], r.IntN(3)*r.IntN(200)) }
	addrs := []string{"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%eth0"}
	for range 300 {
		var all []syncer.Endpoint
		for range r.IntN(5) {
			e := syncer.Endpoint{Grade: syncer.Grade(r.IntN(3)), Ready: r.IntN(2) == 0, Serving: r.IntN(2) == 0, Terminating: r.IntN(2) == 0,
				NodeName: text(), Zone: text(), Hostname: text(), Target: syncer.TargetRef{Kind: text(), Key: syncer.Key{Namespace: text(), Name: text()}, UID: text()}}
			if i := r.IntN(5); i < len(addrs) {
				e.Addr = netip.MustParseAddr(addrs[i])
			}
			all = append(all, e)
		}
		if got := pack(all).unpack(); !reflect.DeepEqual(got, all) {
			t.Fatalf("packed as\n%+v, want\n%+v", got, all)
		}
	}
}
