// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"net/netip"
	"slices"
	"strconv"

	"tributary.dev/tributary/syncer"
)

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
