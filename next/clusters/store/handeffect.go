// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/next/syncer"
)

// handEffect says what a change of what is written for a Service can do.
func handEffect(before, after *hand) syncer.Effect {
	if sameHand(before, after) {
		return syncer.None
	}
	is := after.serving()
	for point := range before.serving() {
		if !is[point] {
			return syncer.Removal
		}
	}
	return syncer.Addition
}

func sameHand(a, b *hand) bool {
	x, y := a.written(), b.written()
	return x.SkipMirror == y.SkipMirror && slices.EqualFunc(x.Subsets, y.Subsets, equalSubsets) &&
		slices.EqualFunc(a.sorted(), b.sorted(), equalSlices)
}

func equalSubsets(a, b syncer.Subset) bool {
	return slices.Equal(a.Ready, b.Ready) && slices.Equal(a.NotReady, b.NotReady) && slices.Equal(a.Ports, b.Ports)
}

func equalSlices(a, b syncer.Slice) bool {
	return a.Name == b.Name && a.Family == b.Family && slices.Equal(a.Ports, b.Ports) &&
		slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y syncer.Endpoint) bool { return x.Equal(&y) })
}

// point is what a client connects to.
type point struct {
	addr     netip.Addr
	protocol string
	port     int32
}

// serving returns the points that are ready.
func (h *hand) serving() map[point]bool {
	points := map[point]bool{}
	add := func(addr netip.Addr, ports []syncer.Port) {
		points[point{addr: addr}] = true
		for i := range ports {
			points[point{addr, ports[i].Protocol, ports[i].Number}] = true
		}
	}
	for _, subset := range h.written().Subsets {
		for i := range subset.Ready {
			add(subset.Ready[i].Addr, subset.Ports)
		}
	}
	for _, slice := range h.sorted() {
		for i := range slice.Endpoints {
			if slice.Endpoints[i].Ready {
				add(slice.Endpoints[i].Addr, slice.Ports)
			}
		}
	}
	return points
}
