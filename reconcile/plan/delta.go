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

// content is what Endpoints and slices hold, by the slices' names.
type content struct {
	subsets []syncer.Subset
	slices  map[string]*syncer.Slice
}

// inSlice is that of one slice.
func inSlice(s *syncer.Slice) content { return content{slices: map[string]*syncer.Slice{"": s}} }

// to lists what is different in another content for traffic, over both kinds together:
// an address that leaves one kind and stays in the other has not left.
func (c content) to(other content) Delta { return deltaBetween(c.counts(other)) }

// counts are the states in both contents of what may differ between them.
func (c content) counts(other content) (before, after counts) {
	changed, none := addrPorts{}.subsets(c.subsets, other.subsets), &syncer.Slice{}
	for name, s := range c.slices {
		changed.slice(s, cmp.Or(other.slices[name], none))
	}
	for name, s := range other.slices {
		if c.slices[name] == nil {
			changed.slice(none, s)
		}
	}
	return changed.count(c), changed.count(other)
}

// counts is the state of addrPorts over one or several objects, the best one of each.
// Those that nobody asked for are not counted: of thousands few change.
type counts struct {
	of    addrPorts
	state map[addrPort]traffic
}

func (s addrPorts) count(c content) counts {
	t := counts{s, make(map[addrPort]traffic, len(s))}
	for e := range endpointsIn(c.subsets) {
		t.put(e.Addr, e.Ports, stateOf(e.Ready))
	}
	for _, slice := range c.slices {
		for i := range slice.Endpoints {
			t.put(slice.Endpoints[i].Addr, slice.Ports, stateOf(slice.Endpoints[i].Ready))
		}
	}
	return t
}

func (t counts) put(addr netip.Addr, ports []syncer.Port, state traffic) {
	addrPortsOf(addr, ports, func(at addrPort) {
		if t.of[at] {
			t.state[at] = max(t.state[at], state)
		}
	})
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
			d.Added = append(d.Added, addrPortText(at))
		case is == absent:
			d.Removed = append(d.Removed, addrPortText(at))
		case is == ready:
			d.Readied = append(d.Readied, addrPortText(at))
		default:
			d.Unreadied = append(d.Unreadied, addrPortText(at))
		}
	}
	return d
}

func addrPortText(at addrPort) string {
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
		return "details of endpoints"
	}
	return strings.Join(parts, ", ")
}

func describeSubsets(old, updated []syncer.Subset) string {
	return content{subsets: old}.to(content{subsets: updated}).describe()
}

func describeSlice(old, updated *syncer.Slice) string {
	return inSlice(old).to(inSlice(updated)).describe()
}

// content is what stands of ours.
func (o *Current) content() content {
	c := content{o.ours().Subsets, map[string]*syncer.Slice{}}
	for _, s := range o.slicesOf(every) {
		c.slices[s.Meta.Name] = &s.Slice
	}
	return c
}

// outcome is what stands of ours once the plan is executed.
func (p *Plan) outcome() content {
	c := p.current.content()
	for _, stage := range p.Sequence() {
		for i := range stage {
			switch a := &stage[i]; {
			case a.Kind == KindService && a.Verb == Delete:
				return content{}
			case a.Kind == KindEndpoints && a.Verb == Delete:
				c.subsets = nil
			case a.Endpoints != nil:
				c.subsets = a.Endpoints.Subsets
			case a.Kind == KindEndpointSlice && a.Verb == Delete:
				delete(c.slices, a.Name)
			case a.Slice != nil:
				c.slices[a.Name] = &a.Slice.Slice
			}
		}
	}
	return c
}

// Single is a plan that only makes one write which takes addresses away.
func Single(current Current, a *Action) Plan {
	p := Plan{current: &current, Replica: current.Key, Removals: []Action{*a}}
	p.Delta = current.content().to(p.outcome())
	return p
}
