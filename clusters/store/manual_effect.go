// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// manualEffect says what the change can do.
func manualEffect(before, after *manual) syncer.Effect {
	if sameManual(before, after) {
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

func sameManual(a, b *manual) bool {
	return a.exists == b.exists &&
		a.endpoints.Object.SkipMirror == b.endpoints.Object.SkipMirror &&
		slices.EqualFunc(a.endpoints.Object.Subsets, b.endpoints.Object.Subsets, equalSubsets) &&
		slices.EqualFunc(a.handSlices(), b.handSlices(), equalSlices)
}

func equalSubsets(a, b syncer.Subset) bool {
	return slices.Equal(a.Ready, b.Ready) && slices.Equal(a.NotReady, b.NotReady) && slices.Equal(a.Ports, b.Ports)
}

func equalSlices(a, b syncer.Slice) bool {
	return a.Name == b.Name && a.Family == b.Family && slices.Equal(a.Ports, b.Ports) &&
		slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y syncer.Endpoint) bool { return x.Equal(&y) })
}

// handSlices returns the slices that no controller derived, sorted by name.
func (m *manual) handSlices() []syncer.Slice {
	var list []syncer.Slice
	for _, v := range m.slices {
		if !v.Object.Derived {
			list = append(list, v.Object.Content)
		}
	}
	slices.SortFunc(list, func(a, b syncer.Slice) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// point is what a client connects to.
type point struct {
	addr     netip.Addr
	protocol string
	port     int32
}

// serving returns the points that are ready.
func (m *manual) serving() map[point]bool {
	points := map[point]bool{}
	add := func(addr netip.Addr, ports []syncer.Port) {
		points[point{addr: addr}] = true
		for i := range ports {
			points[point{addr, ports[i].Protocol, ports[i].Number}] = true
		}
	}
	for _, subset := range m.endpoints.Object.Subsets {
		for i := range subset.Ready {
			add(subset.Ready[i].Addr, subset.Ports)
		}
	}
	for _, slice := range m.handSlices() {
		for i := range slice.Endpoints {
			if slice.Endpoints[i].Ready {
				add(slice.Endpoints[i].Addr, slice.Ports)
			}
		}
	}
	return points
}

// count counts distinct addresses; one that is ready anywhere is ready. seen leaves
// out what is held against a list.
func (m *manual) count(seen bool) (ready, notReady int) {
	if m == nil {
		return 0, 0
	}
	addresses := map[netip.Addr]bool{}
	note := func(addr netip.Addr, isReady bool) { addresses[addr] = addresses[addr] || isReady }
	if !seen || !m.endpoints.held {
		for _, subset := range m.endpoints.Object.Subsets {
			for i := range subset.Ready {
				note(subset.Ready[i].Addr, true)
			}
			for i := range subset.NotReady {
				note(subset.NotReady[i].Addr, false)
			}
		}
	}
	for _, r := range m.slices {
		if seen && r.held {
			continue
		}
		for i := range r.Object.Content.Endpoints {
			note(r.Object.Content.Endpoints[i].Addr, r.Object.Content.Endpoints[i].Ready)
		}
	}
	for _, isReady := range addresses {
		if isReady {
			ready++
		} else {
			notReady++
		}
	}
	return ready, notReady
}
