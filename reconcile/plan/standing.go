// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import "cmp"

// ReadyByCluster counts the ready addresses that stand of each cluster: those of
// our slices, or of our Endpoints where there are no slices of ours.
func ReadyByCluster(observed Observed) map[string]int {
	ready := map[string]int{}
	sliced := false
	for i := range observed.Slices {
		s := &observed.Slices[i]
		if !s.Owned {
			continue
		}
		sliced = true
		for j := range s.Endpoints {
			if s.Endpoints[j].Ready {
				ready[s.Cluster]++
			}
		}
	}
	if e := observed.Endpoints; e != nil && e.Owned && !sliced {
		named, rest := parseAddresses(e.Annotations[AnnotationAddresses])
		for i := range e.Subsets {
			for _, a := range e.Subsets[i].Ready {
				if cluster := cmp.Or(named[a.Addr], rest); cluster != "" {
					ready[cluster]++
				}
			}
		}
	}
	return ready
}
