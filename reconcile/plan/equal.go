// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"

	"tributary.dev/tributary/syncer"
)

// samePorts compares a Service's ports as stored with those wanted. What an API
// server fills in by itself is no difference.
func samePorts(standing, wanted []syncer.ServicePort) bool {
	return slices.EqualFunc(standing, wanted, func(a, b syncer.ServicePort) bool {
		a, b = defaulted(a), defaulted(b)
		return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && a.Target == b.Target &&
			(a.AppProtocol == nil) == (b.AppProtocol == nil) && (a.AppProtocol == nil || *a.AppProtocol == *b.AppProtocol)
	})
}

func defaulted(p syncer.ServicePort) syncer.ServicePort {
	p.Protocol = cmp.Or(p.Protocol, syncer.TCP)
	if p.Target == (syncer.TargetPort{}) {
		p.Target.Number = p.Port
	}
	return p
}

// sameSubsets compares Endpoints as stored, then once more with the stored ones
// repacked: the canonical order has changed between releases of Kubernetes
// (kubernetes#129652), and another order is no reason to write.
func sameSubsets(standing, wanted []syncer.Subset) bool {
	return equalSubsets(standing, wanted) ||
		countAddresses(standing) == countAddresses(wanted) && equalSubsets(syncer.Repack(standing), wanted)
}

func equalSubsets(a, b []syncer.Subset) bool {
	return slices.EqualFunc(a, b, func(a, b syncer.Subset) bool {
		return slices.Equal(a.Ready, b.Ready) && slices.Equal(a.NotReady, b.NotReady) && slices.Equal(a.Ports, b.Ports)
	})
}

// countAddresses keeps sameSubsets from repacking where it cannot help: the
// canonical form of two releases has the same addresses in another order.
func countAddresses(subsets []syncer.Subset) (n int) {
	for i := range subsets {
		n += len(subsets[i].Ready) + len(subsets[i].NotReady)
	}
	return n
}

// sameEndpoints compares the endpoints of a slice as they stand with those wanted, but for their
// order where some of them only stay until they stand elsewhere.
func sameEndpoints(standing, wanted []syncer.Endpoint, ordered bool) bool {
	equal := func(a, b syncer.Endpoint) bool { return a.Equal(&b) }
	if ordered || len(standing) != len(wanted) {
		return slices.EqualFunc(standing, wanted, equal)
	}
	compare := func(a, b syncer.Endpoint) int { return syncer.CompareEndpoints(&a, &b) }
	return slices.EqualFunc(slices.SortedStableFunc(slices.Values(standing), compare), slices.SortedStableFunc(slices.Values(wanted), compare), equal)
}

// sameNumbers compares the ports of a slice as they stand with those wanted, by what steers
// traffic.
func sameNumbers(standing, wanted []syncer.Port) bool {
	return len(standing) == len(wanted) && !slices.ContainsFunc(wanted, func(p syncer.Port) bool {
		return !slices.ContainsFunc(standing, func(o syncer.Port) bool {
			return o.Name == p.Name && o.Protocol == p.Protocol && o.Number == p.Number
		})
	})
}

// Took reports whether an object that the action wrote, as the server answered, is what was
// sent: others may edit what passes. All but the one of the action's kind are nil.
func (a *Action) Took(service *Service, endpoints *Endpoints, slice *Slice) bool {
	switch {
	case a.Service != nil && service != nil:
		return service.ClusterIP == "None" && !service.HasSelector && samePorts(service.Ports, a.Service.Ports)
	case a.Endpoints != nil && endpoints != nil:
		return sameSubsets(endpoints.Subsets, a.Endpoints.Subsets)
	case a.Slice != nil && slice != nil:
		return !slice.Malformed && sameEndpoints(slice.Endpoints, a.Slice.Endpoints, true) && sameNumbers(slice.Ports, a.Slice.Ports)
	}
	return true
}

// within reports whether all ports of one list are in another.
func within(some, all []syncer.Port) bool {
	return !slices.ContainsFunc(some, func(p syncer.Port) bool { return !slices.Contains(all, p) })
}

// follows reports whether an endpoint is one that stands, perhaps under other ports, or comes in
// its place: it is of the same object, or of another that serves on the same port. Pods may
// share an address on the network of their node.
func follows(e, stands *syncer.Endpoint) bool {
	if e.Addr != stands.Addr || e.Target == stands.Target || stands.Target == (syncer.TargetRef{}) || len(e.Ports)+len(stands.Ports) == 0 {
		return e.Addr == stands.Addr
	}
	return slices.ContainsFunc(e.Ports, func(p syncer.Port) bool {
		return slices.ContainsFunc(stands.Ports, func(o syncer.Port) bool { return p.Number == o.Number && p.Protocol == o.Protocol })
	})
}
