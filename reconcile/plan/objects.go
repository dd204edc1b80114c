// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"

	"tributary.dev/tributary/syncer"
)

// endpointsOf are the endpoints of a slice with its ports.
func endpointsOf(s *syncer.Slice) []syncer.Endpoint {
	all := slices.Clone(s.Endpoints)
	for i := range all {
		all[i].Ports = s.Ports
	}
	return all
}

// endpointsIn are the addresses of subsets, as endpoints of Endpoints alone.
func endpointsIn(subsets []syncer.Subset) (all []syncer.Endpoint) {
	for i := range subsets {
		s := &subsets[i]
		all = slices.Grow(all, len(s.Ready)+len(s.NotReady))
		for j, list := range [][]syncer.Address{s.Ready, s.NotReady} {
			for _, a := range list {
				e := syncer.Endpoint{Addr: a.Addr, Ports: s.Ports, Ready: j == 0, Serving: j == 0, Only: syncer.KindEndpoints,
					NodeName: a.NodeName, Hostname: a.Hostname, Target: a.Target}
				e.Grade = e.PublishedGrade(false)
				all = append(all, e)
			}
		}
	}
	return all
}

// sameSubsets compares current Endpoints with those wanted, in any order: the canonical one has
// changed between releases of Kubernetes (kubernetes#129652).
func sameSubsets(current, wanted []syncer.Subset) bool {
	equal := func(a, b syncer.Subset) bool {
		return slices.Equal(a.Ready, b.Ready) && slices.Equal(a.NotReady, b.NotReady) && slices.Equal(a.Ports, b.Ports)
	}
	return slices.EqualFunc(current, wanted, equal) || slices.EqualFunc(syncer.Repack(current), syncer.Repack(wanted), equal)
}

func sameEndpoints(a, b []syncer.Endpoint) bool {
	return slices.EqualFunc(a, b, func(a, b syncer.Endpoint) bool { return a.Equal(&b) })
}

// sameNumbers compares the current ports of a slice with those wanted, by what steers traffic.
func sameNumbers(current, wanted []syncer.Port) bool {
	return len(current) == len(wanted) && !slices.ContainsFunc(wanted, func(p syncer.Port) bool {
		return !slices.ContainsFunc(current, func(o syncer.Port) bool {
			return o.Name == p.Name && o.Protocol == p.Protocol && o.Number == p.Number
		})
	})
}

// loses reports whether ports are some of the current ones, but not all.
func loses(ports, current []syncer.Port) bool {
	within := func(some, all []syncer.Port) bool {
		return !slices.ContainsFunc(some, func(p syncer.Port) bool { return !slices.Contains(all, p) })
	}
	return len(ports) > 0 && within(ports, current) && !within(current, ports)
}
