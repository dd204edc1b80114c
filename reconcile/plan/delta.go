// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/syncer"
)

// addrPort is one ip:port; port 0 stands for an address without ports.
type addrPort = netip.AddrPort

// traffic is what a consumer may make of an addrPort.
type traffic uint8

const (
	absent traffic = iota
	notReady
	ready
)

// counts is the state of addrPorts over one or several objects, the best one of each.
// Those that nobody asked for are not counted: of thousands few change.
type counts struct {
	of    addrPorts
	state map[addrPort]traffic
}

func (s addrPorts) count() counts { return counts{s, make(map[addrPort]traffic, len(s))} }

func (t counts) put(addr netip.Addr, ports []syncer.Port, state traffic) {
	addrPortsOf(addr, ports, func(at addrPort) {
		if t.of[at] {
			t.state[at] = max(t.state[at], state)
		}
	})
}

func (t counts) subsets(subsets []syncer.Subset) counts {
	for i := range subsets {
		for j := range subsets[i].Ready {
			t.put(subsets[i].Ready[j].Addr, subsets[i].Ports, ready)
		}
		for j := range subsets[i].NotReady {
			t.put(subsets[i].NotReady[j].Addr, subsets[i].Ports, notReady)
		}
	}
	return t
}

func (t counts) slice(slice *syncer.Slice) counts {
	for i := range slice.Endpoints {
		state := notReady
		if slice.Endpoints[i].Ready {
			state = ready
		}
		t.put(slice.Endpoints[i].Addr, slice.Ports, state)
	}
	return t
}

func addrPortsOf(addr netip.Addr, ports []syncer.Port, yield func(addrPort)) {
	if !addr.IsValid() {
		return
	}
	if len(ports) == 0 {
		yield(netip.AddrPortFrom(addr, 0))
	}
	for i := range ports {
		yield(netip.AddrPortFrom(addr, uint16(ports[i].Number)))
	}
}

// addrPorts is a set of such that may differ between two versions.
type addrPorts map[addrPort]bool

func (s addrPorts) add(addr netip.Addr, ports []syncer.Port) {
	addrPortsOf(addr, ports, func(at addrPort) { s[at] = true })
}

// subsets adds what may differ between two versions of Endpoints.
func (s addrPorts) subsets(old, updated []syncer.Subset) addrPorts {
	used := make([]bool, len(updated))
	for i := range old {
		var pair syncer.Subset
		for j := range updated {
			if !used[j] && slices.Equal(old[i].Ports, updated[j].Ports) {
				pair, used[j] = updated[j], true
				break
			}
		}
		s.addresses(old[i].Ready, pair.Ready, old[i].Ports)
		s.addresses(old[i].NotReady, pair.NotReady, old[i].Ports)
	}
	for j := range updated {
		if !used[j] {
			s.addresses(nil, updated[j].Ready, updated[j].Ports)
			s.addresses(nil, updated[j].NotReady, updated[j].Ports)
		}
	}
	return s
}

func (s addrPorts) addresses(old, updated []syncer.Address, ports []syncer.Port) {
	old, updated = trim(old, updated, func(a, b *syncer.Address) bool { return a.Addr == b.Addr })
	for _, list := range [][]syncer.Address{old, updated} {
		for i := range list {
			s.add(list[i].Addr, ports)
		}
	}
}

// slice adds what may differ between two versions of a slice, either of which
// may be empty.
func (s addrPorts) slice(old, updated *syncer.Slice) addrPorts {
	from, to := old.Endpoints, updated.Endpoints
	if slices.Equal(old.Ports, updated.Ports) {
		from, to = trim(from, to, func(a, b *syncer.Endpoint) bool { return a.Addr == b.Addr && a.Ready == b.Ready })
	}
	for i := range from {
		s.add(from[i].Addr, old.Ports)
	}
	for i := range to {
		s.add(to[i].Addr, updated.Ports)
	}
	return s
}

// trim cuts off what two lists have in common at both ends.
func trim[E any](a, b []E, same func(a, b *E) bool) (restA, restB []E) {
	for len(a) > 0 && len(b) > 0 && same(&a[0], &b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(&a[len(a)-1], &b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// deltaBetween lists the differences of two counts over the same places.
func deltaBetween(before, after counts) Delta {
	var d Delta
	for _, at := range slices.SortedFunc(maps.Keys(before.of), addrPort.Compare) {
		was, is := before.state[at], after.state[at]
		d.Lost = d.Lost || was == ready && is < ready
		switch {
		case was == is:
		case was == absent:
			d.Added = append(d.Added, spotText(at))
		case is == absent:
			d.Removed = append(d.Removed, spotText(at))
		case is == ready:
			d.Readied = append(d.Readied, spotText(at))
		default:
			d.Unreadied = append(d.Unreadied, spotText(at))
		}
	}
	return d
}

func spotText(at addrPort) string {
	if at.Port() == 0 {
		return at.Addr().String()
	}
	return at.String()
}

// describe says in a few words what changes in one object: "10.0.0.7:8080 left",
// or counts if it is more than one.
func (d Delta) describe() string {
	var parts []string
	for _, change := range []struct {
		spots []string
		verb  string
	}{{d.Removed, "left"}, {d.Unreadied, "not ready"}, {d.Added, "arrived"}, {d.Readied, "ready"}} {
		switch len(change.spots) {
		case 0:
		case 1:
			parts = append(parts, change.spots[0]+" "+change.verb)
		default:
			parts = append(parts, fmt.Sprint(len(change.spots), " ", change.verb))
		}
	}
	if len(parts) == 0 {
		return "details of endpoints"
	}
	return strings.Join(parts, ", ")
}

func describeSubsets(old, updated []syncer.Subset) string {
	s := addrPorts{}.subsets(old, updated)
	return deltaBetween(s.count().subsets(old), s.count().subsets(updated)).describe()
}

func describeSlice(old, updated *syncer.Slice) string {
	s := addrPorts{}.slice(old, updated)
	return deltaBetween(s.count().slice(old), s.count().slice(updated)).describe()
}

// delta is what the plan changes for traffic, over both kinds together: an
// address that leaves one kind and stays in the other has not left.
func (d *differ) delta() Delta {
	if d.plan.Empty() {
		return Delta{}
	}
	var standing []syncer.Subset
	if e := d.current.Endpoints; e != nil && e.Owned {
		standing = e.Subsets
	}
	wanted, sliced := d.outcome(standing)
	changed := addrPorts{}.subsets(standing, wanted)
	old := map[string]*syncer.Slice{}
	for i := range d.current.Slices {
		if o := &d.current.Slices[i]; o.Owned {
			old[o.Meta.Name] = &o.Slice
			changed.slice(&o.Slice, cmp.Or(sliced[o.Meta.Name], &syncer.Slice{}))
		}
	}
	for name, s := range sliced {
		if old[name] == nil {
			changed.slice(&syncer.Slice{}, s)
		}
	}
	before, after := changed.count().subsets(standing), changed.count().subsets(wanted)
	for _, s := range old {
		before.slice(s)
	}
	for _, s := range sliced {
		after.slice(s)
	}
	return deltaBetween(before, after)
}

// outcome is what stands of ours once the plan is executed.
func (d *differ) outcome(standing []syncer.Subset) ([]syncer.Subset, map[string]*syncer.Slice) {
	sliced := map[string]*syncer.Slice{}
	if d.recreate {
		return nil, sliced
	}
	for i := range d.current.Slices {
		if o := &d.current.Slices[i]; o.Owned {
			sliced[o.Meta.Name] = &o.Slice
		}
	}
	for _, stage := range d.plan.Sequence() {
		for i := range stage {
			switch a := &stage[i]; {
			case a.Kind == KindEndpoints && a.Verb == Delete:
				standing = nil
			case a.Endpoints != nil:
				standing = a.Endpoints.Subsets
			case a.Kind == KindEndpointSlice && a.Verb == Delete:
				delete(sliced, a.Name)
			case a.Slice != nil:
				sliced[a.Name] = &a.Slice.Slice
			}
		}
	}
	return standing, sliced
}
