// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"tributary.dev/tributary/metrics/record"
)

const (
	// slowest is the number of slow changes in a status.
	slowest = 10
	// maxDiffering bounds the differences of each cluster in a status.
	maxDiffering = 200
)

// Status is the complete status, as /debug/status serves it.
func (m *Metrics) Status() Status { return m.StatusOf(Scope{}) }

// StatusOf is Status as far as it concerns a scope. Its lists are bounded only then.
func (m *Metrics) StatusOf(scope Scope) Status {
	s := m.whole()
	s.Slowest = append([]*record.Change{}, m.records.Ring().Slowest(slowest)...)
	s.Narrow(scope)
	s.bound()
	return s
}

// Brief is Status without the slowest changes, which take a look at them all.
func (m *Metrics) Brief() Status {
	s := m.whole()
	s.bound()
	return s
}

// whole is the state with all troubles.
func (m *Metrics) whole() Status {
	s := m.asked()
	if s.Time.IsZero() {
		s.Time = time.Now().UTC()
	}
	for i := range s.Clusters {
		if native := s.Clusters[i].Native; native != nil {
			native.Differing = native.Differing[:min(len(native.Differing), maxDiffering)]
		}
	}
	m.troubles.addTo(&s)
	return s
}

func (m *Metrics) asked() Status {
	if m.status == nil {
		return Status{}
	}
	return m.status()
}

// Clusters is the status of the members, with every difference of theirs.
func (m *Metrics) Clusters() []ClusterStatus { return m.asked().Clusters }

// NotReady lists what readiness waits for; nothing when ready.
func (m *Metrics) NotReady() []string { return m.notReady() }

// Leader tells who writes; the zero value where nobody can tell.
func (m *Metrics) Leader() LeaderStatus { return m.leader() }
