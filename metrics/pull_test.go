// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"testing"
	"time"
)

// TestDrainedCondition: a member counts as drained, which silences its alerts, only where
// nothing of it takes traffic any more, and only in the process that can know.
func TestDrainedCondition(t *testing.T) {
	for _, test := range []struct {
		name  string
		edit  func(*Status)
		held  HeldChange
		shown bool
	}{
		{"drained", func(*Status) {}, HeldChange{}, true},
		{"drained and away", func(s *Status) { s.Clusters[0].State, s.Clusters[0].Reason = "silent", "Unreachable" }, HeldChange{}, true},
		{"a process that asks no Lease", func(s *Status) { s.Leader.State = "alone" }, HeldChange{}, true},
		{"another guard holds", func(*Status) {}, HeldChange{Cluster: "idc-a", Reason: "list_shrank"}, true},
		{"another member has the last ones", func(*Status) {}, HeldChange{Cluster: "idc-b", Reason: "drain_last_ready"}, true},
		{"it has the last ones", func(*Status) {}, HeldChange{Cluster: "idc-a", Reason: "drain_last_ready"}, false},
		{"no drain", func(s *Status) { s.Clusters[0].DrainSince = time.Time{} }, HeldChange{}, false},
		{"a standby", func(s *Status) { s.Leader.State = "standby" }, HeldChange{}, false},
		{"it was asked for just now", func(s *Status) { s.Clusters[0].DrainSince = at(58000) }, HeldChange{}, false},
		{"the leader is new", func(s *Status) { s.Leader.Since = at(58000) }, HeldChange{}, false},
		{"a replica waits since then", func(s *Status) { s.Lanes[0].OldestSeconds = 59 }, HeldChange{}, false},
		{"a start", func(s *Status) { s.Ready = false }, HeldChange{}, false},
	} {
		s := Status{
			Time: at(60000), Ready: true, Leader: LeaderStatus{State: "leading", Since: at(0)},
			Clusters: []ClusterStatus{{Name: "idc-a", State: "live", DrainSince: at(1000)}}, Lanes: []LaneStatus{{Name: "bulk", OldestSeconds: 2}},
		}
		test.edit(&s)
		m := New(Options{Status: func() Status { return s }})
		if test.held.Cluster != "" {
			m.Report("shop", "web", Trouble{Held: []HeldChange{test.held}})
		}
		series := []byte(`tributary_cluster_condition{member_cluster="idc-a",reason="Drained"} 1`)
		if shown := bytes.Contains(scraped(m), series); shown != test.shown {
			t.Errorf("%s: shown as drained: %v", test.name, shown)
		}
	}
}
