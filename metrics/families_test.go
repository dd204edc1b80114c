// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/metrics/record"
)

// noon is when the records of the tests happen.
var noon = time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("UTC+1", 3600))

// written is a finished record of a removal: the first sample of package record.
func written() record.Change {
	all, err := os.ReadFile("record/testdata/records.jsonl")
	if err != nil {
		panic(err)
	}
	var r record.Change
	if err := json.Unmarshal([]byte(strings.Split(string(all), "\n")[0]), &r); err != nil {
		panic(err)
	}
	return r
}

// fed returns Metrics into which every method has been called once, so that
// every family has a series.
func fed() *Metrics {
	m := New(Options{Revision: "abc", Status: exampleStatus})
	feed(m, "idc-a")
	m.Write("Endpoints", "update", WriteOK)
	m.SinkRequest("slb", "ok")
	m.ConfigReload(nil)
	m.ConfigReload(errors.New("clusters[0].name: empty"))
	p := m.Workqueue()
	p.NewDepthMetric("replicas").Inc()
	p.NewAddsMetric("replicas").Inc()
	p.NewLatencyMetric("replicas").Observe(1)
	p.NewWorkDurationMetric("replicas").Observe(1)
	p.NewUnfinishedWorkSecondsMetric("replicas").Set(1)
	p.NewLongestRunningProcessorSecondsMetric("replicas").Set(1)
	return m
}

// feed reports everything that can be reported about a cluster.
func feed(m *Metrics, cluster string) {
	rec := written()
	rec.Cluster, rec.Cause.SourceTime = cluster, rec.Cause.Arrival.Add(-time.Second)
	m.Change(rec)
	m.NativeLag(cluster, time.Minute)
	m.Report("shop", "web", Trouble{
		Conflicts: []Conflict{{Reason: "port", Cluster: cluster, Message: "port 80 differs"}},
		Rejected:  []Rejection{{Cluster: cluster, Address: "127.0.0.1", Reason: "loopback"}},
		Orphans:   []OrphanStatus{{Cluster: "old-" + cluster, Endpoints: 1}},
	})
	answer := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests}, nil
	}
	transport := m.Transport(cluster)(roundTripper(answer))
	_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func exampleStatus() Status {
	s := Status{
		Version: "v0.1.0", Instance: "default", Started: noon.UTC(), Time: noon.UTC().Add(time.Minute), Ready: true,
		Leader:  LeaderStatus{State: "leading", Identity: "tributary-0"},
		Config:  ConfigStatus{File: "/etc/tributary/config.yaml", LoadedAt: noon.UTC(), Restart: []string{"listen"}},
		Ingress: IngressStatus{State: "live", Up: true, Synced: true, Version: "v1.36.3", Replicas: 3, LastContact: noon.UTC()},
		Clusters: []ClusterStatus{
			{
				Name: "idc-a", State: "live", Up: true, Synced: true, Version: "v1.36.3", Services: 2, Pods: 5, Endpoints: EndpointCounts{4, 3, 2, 1}, LastContact: noon.UTC(),
				CredentialExpires: noon.UTC().Add(time.Hour), Native: &NativeStatus{BehindSeconds: 12.5, DifferingCount: 1},
			},
			{
				Name: "idc-b", State: "unreachable", Version: "v1.17.0", Missing: 2, LagSeconds: 1.5, LastError: "list pods: connection refused", LastErrorAt: noon.UTC(),
				Conditions: []Condition{{"Unreachable", "its endpoints stay as they were"}, {"Stale", ""}},
			},
		},
		Lanes: []LaneStatus{{Name: "removal"}, {Name: "addition", Waiting: 1, OldestSeconds: 0.25}, {Name: "bulk", Waiting: 7, OldestSeconds: 2}},
		Sinks: []SinkStatus{{Name: "slb", URL: "https://slb.example.com/v1/members", State: "failing", LagSeconds: 90, Services: 12, Pending: 2, LastAcknowledged: noon.UTC(), LastError: "it answers 503"}},
	}
	return s
}

// scraped is what a scraper gets.
func scraped(m *Metrics) []byte {
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(m.Registry(), promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.Bytes()
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(fed().Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// As a scraper sees it: the page itself.
	problems, err = promlint.New(bytes.NewReader(scraped(fed()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestTableIsWhatIsServed compares the table with the registry in both
// directions: name, type, help and labels.
func TestTableIsWhatIsServed(t *testing.T) {
	gathered, err := fed().Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, family := range gathered {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		served[family.GetName()] = strings.ToLower(family.GetType().String()) + " " + strings.Join(labels, ",") + " " + family.GetHelp()
	}
	for _, f := range Families() {
		want := string(f.Type) + " " + strings.Join(slices.Sorted(slices.Values(f.Labels)), ",") + " " + f.Help
		if got := served[f.FullName()]; got != want {
			t.Errorf("%s is in the table as %q, served as %q", f.FullName(), want, got)
		}
		delete(served, f.FullName())
	}
	for name := range served {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("%s is served but not in the table", name)
		}
	}
}

// TestTableIsConsistent: what promlint does not see.
func TestTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Families() {
		// OpenMetrics names the family of a counter without its suffix.
		name := strings.TrimSuffix(f.Name, "_total")
		if seen[name] {
			t.Errorf("%s is in the table twice", name)
		}
		seen[name] = true
		if (f.Type == Counter) != strings.HasSuffix(f.Name, "_total") {
			t.Errorf("%s is a %s", f.Name, f.Type)
		}
		for _, banned := range []string{"service", "namespace", "pod", "ip", "address"} {
			if slices.Contains(f.Labels, banned) {
				t.Errorf("%s has label %q, whose values are not bounded by the number of clusters", f.Name, banned)
			}
		}
		if !strings.HasSuffix(f.Help, ".") || f.Group == "" {
			t.Errorf("%s: help must be a sentence and the group set", f.Name)
		}
	}
}

// TestContract: the families that dashboards of users depend on.
func TestContract(t *testing.T) {
	if n := len(Families()); n > 40 {
		t.Errorf("%d families; at most 40 are agreed", n)
	}
	table := map[string][]string{}
	for _, f := range Families() {
		table[f.Name] = f.Labels
	}
	for _, want := range []string{
		"change_latency_seconds{member_cluster,lane,stage}", "sync_lag_seconds{member_cluster}", "source_delay_seconds{member_cluster}",
		"cluster_up{member_cluster}", "cluster_synced{member_cluster}", "cluster_last_contact_seconds{member_cluster}",
		"cluster_condition{member_cluster,reason}", "writes_total{kind,verb,result}", "services{member_cluster}", "endpoints{member_cluster,state}",
		"missing{member_cluster}", "rejected_addresses{member_cluster,reason}", "orphan_replicas", "conflicts{reason}",
		"native_lag_seconds{member_cluster}", "kubeconfig_expiry_timestamp_seconds{member_cluster}", "leader",
	} {
		name, labels, _ := strings.Cut(strings.TrimSuffix(want, "}"), "{")
		if got := strings.Join(table[name], ","); got != labels {
			t.Errorf("%s has labels %q; the contract says %q", name, got, labels)
		}
	}
}

// volatile are lines of an exposition that differ between runs.
var volatile = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go_|process_)[^\n]*\n|^tributary_(client_request_duration_seconds_(bucket|sum)|build_info)\{?[^\n#]*\n`)

func TestExposition(t *testing.T) {
	golden.File(t, "testdata/metrics.txt", volatile.ReplaceAll(scraped(fed()), nil))
}

func TestNativeHistograms(t *testing.T) {
	gathered, err := fed().Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range gathered {
		for _, metric := range family.GetMetric() {
			h := metric.GetHistogram()
			if h == nil || strings.HasPrefix(family.GetName(), "go_") {
				continue
			}
			if h.Schema == nil || len(h.GetBucket()) != len(LatencyBuckets()) {
				t.Errorf("%s: native schema %v beside %d classic buckets", family.GetName(), h.Schema, len(h.GetBucket()))
			}
		}
	}
	buckets := LatencyBuckets()
	if buckets[0] != 0.0005 || buckets[len(buckets)-1] != 60 {
		t.Errorf("buckets run from %v to %v", buckets[0], buckets[len(buckets)-1])
	}
}
