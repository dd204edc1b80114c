// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"testing"
)

func TestStatusListsAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 3 * MaxTroubles {
		m.Report("shop", fmt.Sprint("svc-", i), Trouble{Conflicts: []Conflict{{Reason: "port"}}})
	}
	if s := m.Status(); len(s.Conflicts) != MaxTroubles || s.ConflictCount != 3*MaxTroubles {
		t.Errorf("%d of %d conflicts shown", len(s.Conflicts), s.ConflictCount)
	}
}

func TestTroubleKeepsItsBeginning(t *testing.T) {
	m := New(Options{})
	trouble := Trouble{
		Conflicts: []Conflict{{Reason: "port", Cluster: "a"}},
		Held:      []HeldChange{{Reason: "namespace", Cluster: "a"}},
		Rejected:  []Rejection{{Reason: "loopback", Cluster: "a", Address: "127.0.0.1"}},
	}
	m.Report("shop", "web", trouble)
	before := m.Status()
	trouble.Conflicts = append(trouble.Conflicts, Conflict{Reason: "headless", Cluster: "a"})
	m.Report("shop", "web", trouble)
	after := m.Status()
	if after.Conflicts[1].Since != before.Conflicts[0].Since || after.Held[0].Since != before.Held[0].Since || after.Rejected[0].Since != before.Rejected[0].Since {
		t.Errorf("before %+v\nafter %+v", before.Conflicts, after.Conflicts)
	}
	m.Report("shop", "web", Trouble{})
	if s := m.Status(); s.ConflictCount+s.HeldCount+s.RejectedCount != 0 || len(m.troubles.of) != 0 {
		t.Errorf("trouble stays: %+v", s)
	}
}

// TestOrphansAreSummedByCluster: a row and a gauge for each cluster that is not configured; one that is again has none
// even before its replicas are looked at.
func TestOrphansAreSummedByCluster(t *testing.T) {
	var members []ClusterStatus
	m := New(Options{Status: func() Status { return Status{Clusters: members} }})
	m.Report("shop", "web", Trouble{Orphans: []OrphanStatus{{Cluster: "idc-b", Endpoints: 2}, {Cluster: "idc-c", Endpoints: 1}}})
	m.Report("shop", "api", Trouble{Orphans: []OrphanStatus{{Cluster: "idc-b", Endpoints: 3}}})
	since := m.Status().Orphans[0].Since
	m.Report("shop", "web", Trouble{Orphans: []OrphanStatus{{Cluster: "idc-b", Endpoints: 1}}})
	if got := m.Status().Orphans; len(got) != 1 || got[0] != (OrphanStatus{Cluster: "idc-b", Replicas: 2, Endpoints: 4, Since: since}) {
		t.Errorf("orphans %+v", got)
	}
	series := []byte(`tributary_orphan_replicas{member_cluster="idc-b"} 2`)
	if !bytes.Contains(scraped(m), series) {
		t.Error("no gauge of idc-b")
	}
	members = []ClusterStatus{{Name: "idc-b"}}
	if got := m.Status().Orphans; len(got) > 0 || bytes.Contains(scraped(m), series) {
		t.Errorf("a member is an orphan: %+v", got)
	}
}
