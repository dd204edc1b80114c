// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tributary.dev/tributary/syncer"
)

// Expected is what a member's own controller computes for a Service when it has
// caught up.
type Expected struct {
	Addresses Addresses
	// Publishes is true for a Service that publishes not-ready addresses.
	Publishes bool
}

// Expect returns what the member's own controller makes of a contribution that was
// computed by upstream's rules alone, from pods as the member shows them. capacity
// is how many addresses it writes at most. ok is false where there is no contribution, or that cannot be known,
// so that there is nothing to compare (docs/semantics.md says why upstream errs
// there): the API server refuses all that upstream makes of the Service (D2, D5, D6),
// and its Endpoints stay as they were.
func Expect(c *syncer.Contribution, capacity int) (expected Expected, ok bool) {
	if c == nil || c.Service == nil || c.Service.Selector == nil || len(c.Rejected) > 0 {
		return Expected{}, false
	}
	all := syncer.Subsets(c.Endpoints)
	subsets, truncated := syncer.Truncate(all, capacity)
	if truncated && len(subsets) < len(all) || slices.ContainsFunc(subsets, lacksNode) {
		return Expected{}, false
	}
	return Expected{Addresses: Of(subsets), Publishes: c.Service.PublishNotReadyAddresses}, true
}

func lacksNode(s syncer.Subset) bool {
	nodeless := func(a syncer.Address) bool { return a.NodeName == "" }
	return slices.ContainsFunc(s.Ready, nodeless) || slices.ContainsFunc(s.NotReady, nodeless)
}

// metBy reports whether theirs is what was expected. Upstream does not wake when a
// pod fails that never was ready (D1), and old versions retain failed pods that may
// be restarted: an address that only theirs has, as not ready, takes no traffic,
// and where not-ready addresses are published it is among the ready ones.
func (e Expected) metBy(theirs Addresses) bool {
	met := 0
	for _, entry := range theirs {
		switch {
		case met < len(e.Addresses) && e.Addresses[met] == entry:
			met++
		case !e.Publishes && !strings.HasSuffix(entry, notReady):
			return false
		}
	}
	return met == len(e.Addresses)
}

func (e Expected) equal(o Expected) bool {
	return e.Publishes == o.Publishes && slices.Equal(e.Addresses, o.Addresses)
}

// Addresses is the traffic of one Service in canonical form: sorted entries
// "ip:port/protocol", with " not ready" behind those that are not. Two controllers
// agree about a Service when their Addresses are equal; how they group addresses
// into subsets does not matter to anyone who sends traffic.
type Addresses []string

// notReady ends the entries of addresses that are not ready.
const notReady = " not ready"

// Of renders subsets. Entries of several subsets count once, and an entry that
// is ready in one of them is ready.
func Of(subsets []syncer.Subset) Addresses {
	ready := map[string]bool{}
	for i := range subsets {
		s := &subsets[i]
		note(ready, s.Ready, s.Ports, true)
		note(ready, s.NotReady, s.Ports, false)
	}
	out := make(Addresses, 0, len(ready))
	for entry, isReady := range ready {
		if !isReady {
			entry += notReady
		}
		out = append(out, entry)
	}
	slices.Sort(out)
	return out
}

func note(ready map[string]bool, addresses []syncer.Address, ports []syncer.Port, isReady bool) {
	for i := range addresses {
		if len(ports) == 0 {
			entry := addresses[i].Addr.String()
			ready[entry] = ready[entry] || isReady
		}
		for _, port := range ports {
			entry := netip.AddrPortFrom(addresses[i].Addr, uint16(port.Number)).String() + "/" + port.Protocol
			if port.Number < 0 || port.Number > 65535 {
				entry = addresses[i].Addr.String() + " port " + strconv.Itoa(int(port.Number))
			}
			ready[entry] = ready[entry] || isReady
		}
	}
}
