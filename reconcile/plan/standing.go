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
	// Publishing are those of them that took every pod for ready, as far as it is on record.
	Publishing []syncer.Key
	// HandWritten are those whose endpoints are written by hand, as far as it is on record,
	// with the objects that these stand in: see Contribution.WrittenIn.
	HandWritten map[syncer.Key][]string
	// WrittenOf are the addresses of hand-written endpoints that name a pod, where others are
	// computed from pods.
	WrittenOf []netip.Addr
	// Endpoints as they stand.
	Endpoints []syncer.Endpoint
}

// Standing is what stands of a cluster.
func (o *Current) Standing(cluster string) (s Standing) {
	for _, share := range o.Share(cluster) {
		s.Sources = append(s.Sources, share.Source)
		if share.Publishes {
			s.Publishing = append(s.Publishing, share.Source)
		}
		if share.HandWritten {
			if s.HandWritten == nil {
				s.HandWritten = map[syncer.Key][]string{}
			}
			s.HandWritten[share.Source] = share.WrittenIn
		}
		s.WrittenOf = append(s.WrittenOf, share.WrittenOf...)
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
		c.Subsets = remaining(c.Subsets, func(e *syncer.Endpoint, state traffic) traffic {
			if slices.Contains(gone, e.Addr) {
				return absent
			}
			return state
		})
	}
	return shares
}
