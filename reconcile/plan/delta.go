// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
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

// traffic is what a consumer may make of an address with a port.
type traffic uint8

const (
	absent traffic = iota
	notReady
	ready
)

func stateOf(isReady bool) traffic {
	if isReady {
		return ready
	}
	return notReady
}

// deltaOf compares endpoints with their ports, over all objects that they are in: what leaves
// one and stays in another has not left.
func deltaOf(before, after iter.Seq[syncer.Endpoint]) (d Delta) {
	was, is := placesOf(before), placesOf(after)
	changed := map[netip.AddrPort]bool{}
	for _, places := range []map[netip.AddrPort]traffic{was, is} {
		for at := range places {
			if was[at] != is[at] {
				changed[at] = true
			}
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(changed), netip.AddrPort.Compare) {
		text := at.String()
		if at.Port() == 0 {
			text = at.Addr().String()
		}
		switch {
		case was[at] == absent:
			d.Added = append(d.Added, text)
		case is[at] == absent:
			d.Removed = append(d.Removed, text)
		case is[at] == ready:
			d.Readied = append(d.Readied, text)
		default:
			d.Unreadied = append(d.Unreadied, text)
		}
	}
	return d
}

// placesOf are the best states of addresses by port, which is 0 where there is none.
func placesOf(endpoints iter.Seq[syncer.Endpoint]) map[netip.AddrPort]traffic {
	places := map[netip.AddrPort]traffic{}
	for e := range endpoints {
		put := func(port int32) {
			at := netip.AddrPortFrom(e.Addr, uint16(port))
			places[at] = max(places[at], stateOf(e.Ready))
		}
		if !e.Addr.IsValid() {
			continue
		}
		if len(e.Ports) == 0 {
			put(0)
		}
		for i := range e.Ports {
			put(e.Ports[i].Number)
		}
	}
	return places
}
