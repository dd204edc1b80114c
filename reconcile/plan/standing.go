// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"slices"

	"tributary.dev/tributary/syncer"
)

// Standing is what stands of a cluster in one replica.
type Standing struct {
	// Sources are the Services of the cluster that gave it.
	Sources []syncer.Key
	// Endpoints as they stand.
	Endpoints []syncer.Endpoint
}

// StandingOf finds what stands of a cluster.
func StandingOf(cluster string, current Current) (s Standing) {
	for _, share := range Recover(cluster, current) {
		s.Sources = append(s.Sources, share.Source)
		s.Endpoints = append(s.Endpoints, share.Endpoints...)
	}
	return s
}

// WithoutGone takes addresses out of shares that were recovered: they are known to be gone,
// though nothing else is known of their member.
func WithoutGone(shares []Contribution, gone []netip.Addr) []Contribution {
	if len(gone) == 0 {
		return shares
	}
	for i := range shares {
		c := &shares[i]
		c.Endpoints = slices.DeleteFunc(slices.Clone(c.Endpoints), func(e syncer.Endpoint) bool { return slices.Contains(gone, e.Addr) })
		isGone := func(a syncer.Address) bool { return slices.Contains(gone, a.Addr) }
		var left []syncer.Subset
		for _, s := range c.Subsets {
			s.Ready = slices.DeleteFunc(slices.Clone(s.Ready), isGone)
			s.NotReady = slices.DeleteFunc(slices.Clone(s.NotReady), isGone)
			if len(s.Ready)+len(s.NotReady) > 0 {
				left = append(left, s)
			}
		}
		c.Subsets = left
	}
	return shares
}
