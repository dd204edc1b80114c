// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package syncer

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// sliceGroup is the endpoints that may share slices: one family, one set of
// ports.
type sliceGroup struct {
	family Family
	// ports are sorted.
	ports []Port
	// wanted are the endpoints in canonical order, each once.
	wanted []*Endpoint
	// placed marks those that have found their slice.
	placed []bool
	// next is where the last claim ended: current endpoints are mostly in order, so
	// the next claim is mostly for that one.
	next int
	// shelf is the current slices of the group, in the order of their names.
	shelf []Slice
}

// groupEndpoints sorts the wanted endpoints into groups, the groups in a fixed
// order.
func groupEndpoints(desired []Endpoint) []*sliceGroup {
	type sharedList struct {
		list portList[Port]
		v6   bool
	}
	byList := map[sharedList]*sliceGroup{}
	var groups []*sliceGroup
	for i := range desired {
		e := &desired[i]
		if !e.In(KindEndpointSlices) {
			continue
		}
		shared := sharedList{listOf(e.Ports), e.Addr.Is6()}
		g := byList[shared]
		if g == nil {
			family, ports := familyOf(e.Addr), sortedPorts(e.Ports)
			at, found := searchGroup(groups, family, ports)
			if !found {
				groups = slices.Insert(groups, at, &sliceGroup{family: family, ports: ports})
			}
			g = groups[at]
			byList[shared] = g
		}
		g.wanted = append(g.wanted, e)
	}
	for _, g := range groups {
		g.index()
	}
	return groups
}

// searchGroup finds the group of a family and ports, or its place among the others.
func searchGroup(groups []*sliceGroup, family Family, sorted []Port) (at int, found bool) {
	return slices.BinarySearchFunc(groups, sorted, func(g *sliceGroup, sorted []Port) int {
		return cmp.Or(strings.Compare(string(g.family), string(family)), slices.CompareFunc(g.ports, sorted, Port.Compare))
	})
}

// sortedPorts returns ports in order; the argument itself if it is.
func sortedPorts(ports []Port) []Port {
	if slices.IsSortedFunc(ports, Port.Compare) {
		return ports
	}
	return slices.SortedFunc(slices.Values(ports), Port.Compare)
}

// index puts wanted into canonical order, which makes it searchable, and drops
// repetitions.
func (g *sliceGroup) index() {
	if !slices.IsSortedFunc(g.wanted, CompareEndpoints) {
		slices.SortStableFunc(g.wanted, CompareEndpoints)
	}
	g.wanted = slices.CompactFunc(g.wanted, sameEndpoint)
	g.placed = make([]bool, len(g.wanted))
}

// sameEndpoint reports whether two endpoints are states of one.
func sameEndpoint(a, b *Endpoint) bool { return a.Addr == b.Addr && a.Target == b.Target }

// claim returns the wanted state of a current endpoint and marks it as placed;
// nil when it is not wanted or already placed elsewhere.
func (g *sliceGroup) claim(e *Endpoint) *Endpoint {
	first := g.next
	if first >= len(g.wanted) || !sameEndpoint(g.wanted[first], e) {
		first, _ = slices.BinarySearchFunc(g.wanted, e.Addr, func(w *Endpoint, addr netip.Addr) int { return CompareAddr(w.Addr, addr) })
	}
	for i := first; i < len(g.wanted) && g.wanted[i].Addr == e.Addr; i++ {
		if !g.placed[i] && g.wanted[i].Target == e.Target {
			g.placed[i], g.next = true, i+1
			return g.wanted[i]
		}
	}
	return nil
}

// shelve hands every current slice to the group it belongs to, if any wants it: that of its
// ports, or the one that it is named after, if somebody else has changed its ports.
func (p *packer) shelve(current []Slice, groups []*sliceGroup) {
	for i := range current {
		s := current[i]
		at, found := searchGroup(groups, s.Family, sortedPorts(s.Ports))
		if !found {
			at = slices.IndexFunc(groups, func(g *sliceGroup) bool {
				return g.family == s.Family && strings.HasPrefix(s.Name, sliceStem(p.Service, p.Cluster, g.family, g.ports)+"-")
			})
			if at < 0 {
				continue
			}
			s.Ports = groups[at].ports
		}
		groups[at].shelf = append(groups[at].shelf, s)
	}
	for _, g := range groups {
		slices.SortFunc(g.shelf, func(a, b Slice) int { return compareNames(a.Name, b.Name) })
	}
}
