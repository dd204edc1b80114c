// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when the records of the tests happen.
var noon = time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("UTC+1", 3600))

// written is a finished record of a removal, burst one with everything set: the samples of package record.
func written() record.Change { return sample(0) }
func burst() record.Change   { return sample(1) }

// of is a finished record with the result.
func of(result record.Result, at time.Time) record.Change {
	r := written()
	r.Result, r.Time = result, at
	return r
}

func sample(line int) record.Change {
	all, err := os.ReadFile("../record/testdata/records.jsonl")
	if err != nil {
		panic(err)
	}
	var r record.Change
	if err := json.Unmarshal([]byte(strings.Split(string(all), "\n")[line]), &r); err != nil {
		panic(err)
	}
	return r
}

// TestExample keeps the example where the tests of package metrics read it.
func TestExample(t *testing.T) {
	body, err := json.MarshalIndent(exampleStatus(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/example.json", append(body, '\n'))
}

func exampleStatus() metrics.Status {
	s := metrics.Status{
		Version: "v0.1.0", Started: noon.UTC(), Time: noon.UTC().Add(time.Minute), Ready: true,
		Config:  metrics.ConfigStatus{File: "/etc/tributary/config.yaml", LoadedAt: noon.UTC()},
		Ingress: metrics.IngressStatus{State: "live", Up: true, Synced: true, Version: "v1.36.3", Replicas: 3, LastContact: noon.UTC()},
		Clusters: []metrics.ClusterStatus{
			{Name: "idc-a", State: "live", Up: true, Synced: true, Version: "v1.36.3", Services: 2, Pods: 5, LastContact: noon.UTC(), CredentialExpires: noon.UTC().Add(time.Hour), CredentialRenewed: noon.UTC().Add(-9 * time.Hour)},
			{Name: "idc-b", State: "silent", Reason: "Unreachable", Panic: true, Stale: true, DrainSince: noon.UTC(), Version: "v1.17.0", LagSeconds: 1.5,
				Remarks: []string{"nodes may not be listed: zones are left out"}, LastError: "list pods: connection refused", LastErrorAt: noon.UTC(), Unreadable: 3},
		},
		Sinks: []metrics.SinkStatus{{Name: "slb", URL: "https://slb.example.com/v1/members", State: "failing", LagSeconds: 90, Services: 12, Pending: 2, Refused: 1, Requests: 40, Failures: 3,
			LastAcknowledged: noon.UTC(), LastError: "it answers 503 Service Unavailable"}},
		Lanes: []metrics.LaneStatus{{Name: "removal"}, {Name: "addition", Depth: 1, OldestSeconds: 0.25}, {Name: "bulk", Depth: 7, OldestSeconds: 2}},
		Held:  []metrics.HeldChange{{Cluster: "idc-b", Reason: "list_shrank", Message: "3 pods are not listed any more and are kept", Release: "tributary release --cluster idc-b", Since: noon.UTC()}},
	}
	s.Clusters[0].Native = &metrics.NativeStatus{BehindSeconds: 12.5, DifferingCount: 1, Differing: []metrics.NativeDifference{{
		Cluster: "idc-a", Namespace: "shop", Service: "web", Since: noon.UTC(), Ours: []string{}, Theirs: []string{"10.0.0.1:80/TCP"},
	}}}
	s.Clusters[0].Endpoints.Ready, s.Clusters[0].Endpoints.NotReady, s.Clusters[0].Endpoints.Damped = 4, 2, 1
	s.Clusters[0].Rules = []metrics.RuleStatus{{Name: "taken-off-by-hand", Then: "Absent", Matches: 1, Held: 2, Evaluations: 9, Errors: 1, Cost: 40, Seconds: 0.5, LastError: "no such key: a"}}
	return s
}
