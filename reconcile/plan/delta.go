// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
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

// With is what either changes.
func (d Delta) With(other Delta) Delta {
	union := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	return Delta{union(d.Added, other.Added), union(d.Removed, other.Removed), union(d.Readied, other.Readied), union(d.Unreadied, other.Unreadied)}
}

// Change is what the writes of one comparison, each of another object, change for traffic together: an
// address that leaves one object and is in another has not left.
func Change(now Current, written []Action) Delta {
	var before, after []syncer.Endpoint
	for _, o := range now.objects() {
		before = append(before, o.endpoints...)
		if !slices.ContainsFunc(written, func(a Action) bool { return a.Object() == o.Object || a.Kind == KindService && a.Verb == Delete }) {
			after = append(after, o.endpoints...)
		}
	}
	for i := range written {
		after = append(after, written[i].endpoints()...)
	}
	return deltaOf(before, after)
}

// deltaOf compares endpoints with their ports, over all objects that they are in: what leaves
// one and stays in another has not left.
func deltaOf(before, after []syncer.Endpoint) (d Delta) {
	was, is := placesOf(before), placesOf(after)
	for at, isReady := range is {
		switch wasReady, existed := was[at]; {
		case !existed:
			d.Added = append(d.Added, text(at))
		case isReady && !wasReady:
			d.Readied = append(d.Readied, text(at))
		case wasReady && !isReady:
			d.Unreadied = append(d.Unreadied, text(at))
		}
	}
	for at := range was {
		if _, exists := is[at]; !exists {
			d.Removed = append(d.Removed, text(at))
		}
	}
	for _, list := range [][]string{d.Added, d.Removed, d.Readied, d.Unreadied} {
		slices.Sort(list)
	}
	return d
}

func text(at netip.AddrPort) string {
	if at.Port() == 0 {
		return at.Addr().String()
	}
	return at.String()
}

// placesOf are addresses by port, which is 0 where there is none, and whether one is ready there.
func placesOf(endpoints []syncer.Endpoint) map[netip.AddrPort]bool {
	places := map[netip.AddrPort]bool{}
	for _, e := range endpoints {
		ports := e.Ports
		if len(ports) == 0 {
			ports = []syncer.Port{{}}
		}
		for i := range ports {
			if at := netip.AddrPortFrom(e.Addr, uint16(ports[i].Number)); e.Addr.IsValid() {
				places[at] = places[at] || e.Ready
			}
		}
	}
	return places
}
