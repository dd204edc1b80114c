// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestStatusListsAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 3 * MaxTroubles {
		m.Report("shop", fmt.Sprint("svc-", i), Trouble{Conflicts: []Conflict{{Reason: "port"}}, Rejected: []Rejection{{Address: strings.Repeat("x", 1000)}}})
	}
	s := m.Status()
	if len(s.Conflicts) != MaxTroubles || s.ConflictCount != 3*MaxTroubles {
		t.Errorf("%d of %d conflicts shown", len(s.Conflicts), s.ConflictCount)
	}
	if n := len(s.Rejected[0].Address); n > 200 {
		t.Errorf("an address of %d bytes is shown", n)
	}
}

func TestTroubleKeepsItsBeginning(t *testing.T) {
	m := New(Options{})
	trouble := Trouble{Conflicts: []Conflict{{Reason: "port", Cluster: "a"}}}
	m.Report("shop", "web", trouble)
	before := m.Status()
	trouble.Conflicts = append(trouble.Conflicts, Conflict{Reason: "headless", Cluster: "a"})
	m.Report("shop", "web", trouble)
	after := m.Status()
	if after.Conflicts[1].Since != before.Conflicts[0].Since {
		t.Errorf("before %+v\nafter %+v", before.Conflicts, after.Conflicts)
	}
	m.Report("shop", "web", Trouble{})
	if s := m.Status(); s.ConflictCount+s.RejectedCount != 0 || len(m.troubles.of) != 0 {
		t.Errorf("trouble stays: %+v", s)
	}
}

// TestOrphansAreSummedByCluster: one that is configured again has none even before its
// replicas are compared.
func TestOrphansAreSummedByCluster(t *testing.T) {
	var members []ClusterStatus
	m := New(Options{Status: func() Status { return Status{Clusters: members} }})
	m.Report("shop", "web", Trouble{Orphans: []OrphanStatus{{Cluster: "idc-b", Endpoints: 2}, {Cluster: "idc-c", Endpoints: 1}}})
	m.Report("shop", "api", Trouble{Orphans: []OrphanStatus{{Cluster: "idc-b", Endpoints: 3}}})
	s := m.Status()
	if want := []OrphanStatus{{"idc-b", 2, 5}, {"idc-c", 1, 1}}; !reflect.DeepEqual(s.Orphans, want) || s.OrphanReplicas != 2 {
		t.Errorf("orphans %+v in %d replicas", s.Orphans, s.OrphanReplicas)
	}
	members = []ClusterStatus{{Name: "idc-b"}}
	if s := m.Status(); len(s.Orphans) != 1 || s.OrphanReplicas != 1 {
		t.Errorf("a member is an orphan: %+v in %d replicas", s.Orphans, s.OrphanReplicas)
	}
}

func TestFindings(t *testing.T) {
	s := Status{Ready: true, Ingress: IngressStatus{Up: true}, Clusters: []ClusterStatus{{Name: "idc-a", State: "live", Up: true, Synced: true}}}
	if found := s.Findings(); len(found) > 0 {
		t.Errorf("all is well, and yet: %+v", found)
	}
	for _, test := range []struct {
		name  string
		edit  func(*Status)
		grave bool
		want  string
	}{
		{"not ready", func(s *Status) { s.NotReady = []string{"a", "b"} }, true, "Not ready: a; b."},
		{"ingress away", func(s *Status) { s.Ingress = IngressStatus{LastError: "refused"} }, true, "The ingress cluster does not answer: refused."},
		{"configuration refused", func(s *Status) { s.Config.Error = "x.yaml: listen: no" }, true, "former one runs on: x.yaml: listen: no."},
		{"restart", func(s *Status) { s.Config.Restart = []string{"listen", "instance"} }, false, "listen, instance"},
		{"member away", func(s *Status) { s.Clusters[0].Up, s.Clusters[0].State = false, "unreachable" }, true, "Cluster idc-a is unreachable. Its endpoints stay as they are."},
		{"a drained member away", func(s *Status) {
			s.Clusters[0].Up, s.Clusters[0].Conditions = false, []Condition{{Reason: "Drained"}}
		}, false, "idc-a"},
		{"doubt", func(s *Status) { s.Clusters[0].Conditions = []Condition{{"Refused", "may not be read: pods in pay"}} }, false, "Cluster idc-a: may not be read: pods in pay."},
		{"lag", func(s *Status) { s.Clusters[0].LagSeconds = 75 }, true, "waits for 1m15s"},
		{"orphans", func(s *Status) { s.Orphans = []OrphanStatus{{"old", 2, 9}} }, false, "2 replicas have 9 endpoints of it"},
		{"sink", func(s *Status) { s.Sinks = []SinkStatus{{Name: "slb", State: "failing", Pending: 3}} }, true, "slb is not told: 3 Services wait."},
		{"conflicts", func(s *Status) { s.ConflictCount = 2 }, false, "Conflicts: 2."},
	} {
		is := s
		is.Clusters = []ClusterStatus{s.Clusters[0]}
		test.edit(&is)
		found := is.Findings()
		if len(found) == 0 || found[0].Grave != test.grave || !strings.Contains(found[0].Text, test.want) || found[0].Do == "" {
			t.Errorf("%s: %+v", test.name, found)
		}
	}
}
