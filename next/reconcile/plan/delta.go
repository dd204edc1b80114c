// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"tributary.dev/tributary/next/syncer"
)

// Delta lists what a write changes for traffic, as "ip:port", sorted; the bare address where
// there are no ports.
type Delta struct {
	Added, Removed, Readied, Unreadied []string
}

// Empty reports whether nothing changes for traffic.
func (d Delta) Empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Readied)+len(d.Unreadied) == 0
}

// details is why an object is written whose traffic stays the same.
const details = "details of endpoints"

// describe says in a few words what changes: "10.0.0.7:8080 left", or how many if it is more
// than one; otherwise is what it says where nothing does.
func (d Delta) describe(otherwise string) string {
	var parts []string
	for _, change := range []struct {
		places []string
		verb   string
	}{{d.Removed, "left"}, {d.Unreadied, "not ready"}, {d.Added, "arrived"}, {d.Readied, "ready"}} {
		switch len(change.places) {
		case 0:
		case 1:
			parts = append(parts, change.places[0]+" "+change.verb)
		default:
			parts = append(parts, fmt.Sprint(len(change.places), " ", change.verb))
		}
	}
	if len(parts) == 0 {
		return otherwise
	}
	return strings.Join(parts, ", ")
}

// traffic is what a consumer may make of an address with a port.
type traffic uint8

const (
	absent traffic = iota
	notReady
	ready
)

// content is what Endpoints and slices hold, by the slices' names.
type content struct {
	subsets []syncer.Subset
	slices  map[string]*syncer.Slice
}

// inSlice is that of one slice.
func inSlice(s *syncer.Slice) content { return content{slices: map[string]*syncer.Slice{s.Name: s}} }

// contentOf is what stands of ours.
func contentOf(c *Current) content {
	out := content{slices: map[string]*syncer.Slice{}}
	if c.Endpoints != nil && c.Endpoints.Owned {
		out.subsets = c.Endpoints.Subsets
	}
	for i := range c.Slices {
		if s := &c.Slices[i]; s.Owned {
			out.slices[s.Name] = &s.Slice
		}
	}
	return out
}


// to lists what is different in another content for traffic, over both kinds together: an
// address that leaves one object and stays in another has not left.
func (c content) to(other content) (d Delta) {
	changed := places{}
	changed.subsets(c.subsets, other.subsets)
	for name, s := range c.slices {
		changed.slices(s, other.slices[name])
	}
	for name, s := range other.slices {
		if c.slices[name] == nil {
			changed.slices(nil, s)
		}
	}
	before, after := changed.in(c), changed.in(other)
	for _, at := range slices.SortedFunc(maps.Keys(changed), netip.AddrPort.Compare) {
		text := at.String()
		if at.Port() == 0 {
			text = at.Addr().String()
		}
		switch was, is := before[at], after[at]; {
		case was == is:
		case was == absent:
			d.Added = append(d.Added, text)
		case is == absent:
			d.Removed = append(d.Removed, text)
		case is == ready:
			d.Readied = append(d.Readied, text)
		default:
			d.Unreadied = append(d.Unreadied, text)
		}
	}
	return d
}

// places are addresses with ports; port 0 stands for an address without. What may differ
// between two contents is gathered first, and only that is counted: of thousands few change.
type places map[netip.AddrPort]traffic

// put raises the state of an address.
func (p places) put(addr netip.Addr, ports []syncer.Port, state traffic) {
	if !addr.IsValid() {
		return
	}
	if len(ports) == 0 {
		at := netip.AddrPortFrom(addr, 0)
		p[at] = max(p[at], state)
	}
	for i := range ports {
		at := netip.AddrPortFrom(addr, uint16(ports[i].Number))
		p[at] = max(p[at], state)
	}
}

// in is the state of the same places in a content, the best over all its objects.
func (p places) in(c content) places {
	all := places{}
	for e := range endpointsIn(c.subsets) {
		all.put(e.Addr, e.Ports, stateOf(e.Ready))
	}
	for _, s := range c.slices {
		for i := range s.Endpoints {
			all.put(s.Endpoints[i].Addr, s.Ports, stateOf(s.Endpoints[i].Ready))
		}
	}
	return all
}

func stateOf(isReady bool) traffic {
	if isReady {
		return ready
	}
	return notReady
}

// slices adds what may differ between two versions of a slice; nil is none.
func (p places) slices(old, updated *syncer.Slice) {
	none := &syncer.Slice{}
	if old == nil {
		old = none
	}
	if updated == nil {
		updated = none
	}
	from, to := old.Endpoints, updated.Endpoints
	if slices.Equal(old.Ports, updated.Ports) {
		from, to = trim(from, to, func(a, b *syncer.Endpoint) bool { return a.Addr == b.Addr && a.Ready == b.Ready })
	}
	for i := range from {
		p.put(from[i].Addr, old.Ports, absent)
	}
	for i := range to {
		p.put(to[i].Addr, updated.Ports, absent)
	}
}

// subsets adds what may differ between two versions of Endpoints.
func (p places) subsets(old, updated []syncer.Subset) {
	used := make([]bool, len(updated))
	for i := range old {
		var pair syncer.Subset
		for j := range updated {
			if !used[j] && slices.Equal(old[i].Ports, updated[j].Ports) {
				pair, used[j] = updated[j], true
				break
			}
		}
		p.addresses(old[i].Ready, pair.Ready, old[i].Ports)
		p.addresses(old[i].NotReady, pair.NotReady, old[i].Ports)
	}
	for j := range updated {
		if !used[j] {
			p.addresses(nil, updated[j].Ready, updated[j].Ports)
			p.addresses(nil, updated[j].NotReady, updated[j].Ports)
		}
	}
}

func (p places) addresses(old, updated []syncer.Address, ports []syncer.Port) {
	old, updated = trim(old, updated, func(a, b *syncer.Address) bool { return a.Addr == b.Addr })
	for _, list := range [][]syncer.Address{old, updated} {
		for i := range list {
			p.put(list[i].Addr, ports, absent)
		}
	}
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
