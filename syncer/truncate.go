// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"math"
	"slices"
)

// EndpointsCapacity is the number of addresses that upstream lets one Endpoints
// object hold.
const EndpointsCapacity = 1000

// Truncate limits subsets to capacity addresses as upstream does: ready
// addresses go before not-ready ones, the subsets share the places in
// proportion to their addresses, and each keeps its first ones. truncated
// reports whether any address was left out. A subset that lost its last address
// is dropped, where upstream keeps it and the API server then refuses the whole
// object. The input is not changed, and returned as it is when it fits.
//
// Rule source: truncateEndpoints in pkg/controller/endpoint, 1.36.
func Truncate(subsets []Subset, capacity int) (out []Subset, truncated bool) {
	ready, notReady := 0, 0
	for i := range subsets {
		ready += len(subsets[i].Ready)
		notReady += len(subsets[i].NotReady)
	}
	if ready+notReady <= capacity {
		return subsets, false
	}
	out = slices.Clone(subsets)
	if ready > capacity {
		share(out, ready, capacity, func(s *Subset) *[]Address { return &s.Ready })
		for i := range out {
			out[i].NotReady = nil
		}
	} else {
		share(out, notReady, capacity-ready, func(s *Subset) *[]Address { return &s.NotReady })
	}
	return slices.DeleteFunc(out, func(s Subset) bool { return len(s.Ready)+len(s.NotReady) == 0 }), true
}

// share cuts the chosen list of each subset to its part of the places. Parts
// are rounded up, so the last subsets may get less.
func share(subsets []Subset, total, places int, of func(*Subset) *[]Address) {
	left := places
	for i := range subsets {
		list := of(&subsets[i])
		part := int(math.Ceil(float64(len(*list)) / float64(total) * float64(places)))
		part = min(part, left, len(*list))
		left -= part
		*list = (*list)[:part:part]
		if part == 0 {
			*list = nil
		}
	}
}
