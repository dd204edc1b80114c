// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/syncer"
)

// Explanation is what one member has to do with a replica.
type Explanation struct {
	Cluster  string
	State    evidence.Condition
	Reason   evidence.Reason
	Synced   bool
	Services []ServiceExplanation
}

// ServiceExplanation is one Service of a member.
type ServiceExplanation struct {
	evidence.Explained
	// Excluded is why the Service is not replicated; empty where it is.
	Excluded string
}

// Explain says, member by member, what becomes of the Services behind a replica, and of
// the Service of that very name, replicated or not.
func (s *Set) Explain(key syncer.Key) []Explanation {
	members := s.applied.Load().members
	all := make([]Explanation, len(members))
	for i, m := range members {
		all[i] = m.explain(key)
	}
	return all
}

func (m *Member) explain(key syncer.Key) Explanation {
	m.mu.RLock()
	v := m.state.View()
	out := Explanation{Cluster: m.name, State: v.State, Reason: v.Reason, Synced: v.Synced}
	explained, cluster := m.state.Explain(key), m.spec.cluster
	m.mu.RUnlock()
	for _, e := range explained {
		service := ServiceExplanation{Explained: e}
		if !e.Placed {
			service.Excluded = cluster.Excluded(e.Service)
		}
		out.Services = append(out.Services, service)
	}
	return out
}
