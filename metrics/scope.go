// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	"tributary.dev/tributary/metrics/record"
)

// Scope is what of a status somebody asks for: what concerns a member, a replica, or both. Empty fields leave all.
type Scope struct{ Cluster, Namespace, Service string }

// Narrow leaves what concerns a scope.
func (s *Status) Narrow(to Scope) {
	replica := to.Service != ""
	other := func(cluster, namespace, service string) bool {
		return to.Cluster != "" && cluster != to.Cluster || replica && (namespace != to.Namespace || service != to.Service)
	}
	if to.Cluster != "" {
		cut(&s.Clusters, func(c ClusterStatus) bool { return c.Name != to.Cluster })
		cut(&s.Orphans, func(o OrphanStatus) bool { return o.Cluster != to.Cluster })
		s.Lanes = s.Lanes[:0] // which do not say whose the keys are: the member's lag does
	}
	if to.Cluster == "" && !replica {
		return
	}
	s.Sinks = nil // which are about all
	s.ConflictCount -= cut(&s.Conflicts, func(c Conflict) bool { return other(c.Cluster, c.Namespace, c.Service) })
	s.HeldCount -= cut(&s.Held, func(h HeldChange) bool {
		// What is held of a member as a whole concerns every replica.
		return other(h.Cluster, h.Namespace, h.Service) && (h.Service != "" || to.Cluster != "" && h.Cluster != to.Cluster)
	})
	s.RejectedCount -= cut(&s.Rejected, func(r Rejection) bool { return other(r.Cluster, r.Namespace, r.Service) })
	cut(&s.Slowest, func(r *record.Change) bool { return other(r.Cluster, r.Namespace, r.Service) })
}

// cut takes out of a list, which others may hold, and says how many.
func cut[T any](list *[]T, out func(T) bool) int {
	before := len(*list)
	*list = slices.DeleteFunc(slices.Clone(*list), out)
	return before - len(*list)
}

// bound cuts the lists of troubles; their counts stay.
func (s *Status) bound() {
	s.Conflicts, s.Held, s.Rejected = bounded(s.Conflicts), bounded(s.Held), bounded(s.Rejected)
}

func bounded[T any](list []T) []T { return append([]T{}, list[:min(len(list), MaxTroubles)]...) }
