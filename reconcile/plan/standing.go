// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"net/netip"

	"tributary.dev/tributary/syncer"
)

// Standing is what stands of a cluster in one replica.
type Standing struct {
	// Sources are the Services of the cluster that gave it.
	Sources []syncer.Key
	// Ready has an address of each ready endpoint, by the UID of its pod, or by the
	// address itself where no pod is named.
	Ready map[string]netip.Addr
}

// StandingOf finds what stands of a cluster: in our slices, or in our Endpoints where
// there are no slices of ours.
func StandingOf(cluster string, observed Observed) Standing {
	s := Standing{Ready: map[string]netip.Addr{}}
	add := func(addr netip.Addr, target *syncer.TargetRef) {
		s.Ready[cmp.Or(target.UID, addr.String())] = addr
	}
	sliced := false
	for i := range observed.Slices {
		slice := &observed.Slices[i]
		sliced = sliced || slice.Owned
		if !slice.Owned || slice.Cluster != cluster {
			continue
		}
		for j := range slice.Endpoints {
			if e := &slice.Endpoints[j]; e.Ready {
				add(e.Addr, &e.Target)
			}
		}
	}
	if e := observed.Endpoints; e != nil && e.Owned && !sliced {
		named, rest := parseAddresses(e.Annotations[AnnotationAddresses])
		for i := range e.Subsets {
			for j := range e.Subsets[i].Ready {
				if a := &e.Subsets[i].Ready[j]; cmp.Or(named[a.Addr], rest) == cluster {
					add(a.Addr, &a.Target)
				}
			}
		}
	}
	if len(s.Ready) > 0 {
		s.Sources = sourcesOf(cluster, observed)
	}
	return s
}

// sourcesOf are the Services of a cluster that feed a replica, as on record; one
// that is not on record has the replica's name.
func sourcesOf(cluster string, observed Observed) []syncer.Key {
	var keys []syncer.Key
	for _, s := range standingSources(observed) {
		if key, ok := syncer.ParseKey(s.Service); ok && s.Cluster == cluster {
			keys = append(keys, key)
		}
	}
	if keys == nil {
		keys = []syncer.Key{observed.Key}
	}
	return keys
}
