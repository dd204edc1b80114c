// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"tributary.dev/tributary/internal/dice"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// TestPack reads back what was packed, whatever its texts are.
func TestPack(t *testing.T) {
	r := dice.New(t)
	text := func() string { return strings.Repeat("\x00é,x"[r.IntN(4):], r.IntN(3)*r.IntN(200)) }
	of := func(usual string) string { return []string{usual, text()}[r.IntN(2)] }
	const uuid = "0b9a4c1e-62f7-4d0b-9c5e-0123456789ab"
	addrs := []string{"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%eth0"}
	for range 300 {
		var all []syncer.Endpoint
		for range r.IntN(5) {
			e := syncer.Endpoint{Grade: syncer.Grade(r.IntN(3)), Ready: r.IntN(2) == 0, Serving: r.IntN(2) == 0, Terminating: r.IntN(2) == 0,
				NodeName: text(), Zone: text(), Hostname: text(), Target: syncer.TargetRef{Kind: of("Pod"), Key: syncer.Key{Namespace: of("shop"), Name: text()}, UID: of(uuid)}}
			if i := r.IntN(5); i < len(addrs) {
				e.Addr = netip.MustParseAddr(addrs[i])
			}
			all = append(all, e)
		}
		o := Object{Object: plan.Object{Kind: plan.KindEndpointSlice, Namespace: "shop"}, Slice: &plan.Slice{
			Meta: plan.Meta{Annotations: map[string]string{text(): text(), text(): text()}}, Slice: syncer.Slice{Endpoints: all}}}
		if got := o.pack().slice(); !reflect.DeepEqual(got, *o.Slice) {
			t.Fatalf("packed as\n%+v, want\n%+v", got, *o.Slice)
		}
	}
}
