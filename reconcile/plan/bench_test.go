// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// BenchmarkChange is the price of one pod that turns not ready: merge and diff.
func BenchmarkChange(b *testing.B) {
	settings := Settings{WriteEndpoints: true, WriteSlices: true}
	for _, pods := range []int{10, 100, 1000, 5000} {
		for _, members := range []int{1, 3} {
			b.Run(fmt.Sprintf("pods=%d/members=%d", pods, members), func(b *testing.B) {
				w := newWorld(b, shopWeb)
				var contributions []Contribution
				for m := range members {
					var addresses []string
					for i := range pods / members {
						addresses = append(addresses, netip.AddrFrom4([4]byte{10, byte(m), byte(i / 250), byte(i % 250)}).String())
					}
					contributions = append(contributions, from(fmt.Sprint("idc-", m), int64(m), "http:80", addresses...))
				}
				w.settle(mergeOrNil(contributions, w.current, settings), settings, nil)
				contributions[0].Endpoints = slices.Clone(contributions[0].Endpoints)
				contributions[0].Endpoints[len(contributions[0].Endpoints)/2].Ready = false
				b.ReportAllocs()
				for b.Loop() {
					r := Merge(shopWeb, contributions, w.current, settings)
					if p := Diff(w.current, &r, settings); p.Empty() {
						b.Fatal("nothing to write")
					}
				}
			})
		}
	}
}
