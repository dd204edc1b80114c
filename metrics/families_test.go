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

// fed returns Metrics into which every method has been called once, so that
// every family has a series.
func fed() *Metrics {
	m := New(Options{Version: "v0.1.0", Revision: "abc", Status: exampleStatus})
	feed(m, "idc-a")
	m.Write("Endpoints", "update", WriteOK, time.Millisecond)
	m.QueueAdded("removal")
	m.QueueRetried("removal")
	m.QueueTaken("removal", time.Millisecond)
	m.WorkDone("removal", time.Millisecond)
	m.SinkRequest("slb", "ok", time.Millisecond)
	m.ConfigReload(nil)
	m.ConfigReload(errors.New("clusters[0].name: empty"))
	return m
}

// feed reports everything that can be reported about a cluster.
func feed(m *Metrics, cluster string) {
	rec := written()
	rec.Cluster, rec.Cause.SourceTime = cluster, rec.Cause.Arrival.Add(-time.Second)
	seq := m.Change(rec)
	ref := record.Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: "9"}
	m.Expect(seq, &rec, []record.Ref{ref})
	m.Echo(ref, at(3))
	m.NativeLag(cluster, time.Minute)
	m.WatchEvent(cluster, "pods", "modified")
	m.WatchEnded(cluster, "pods", "closed")
	m.Listed(cluster, "pods", "expired", time.Second)
	m.Unreadable(cluster, "pods")
	m.Report("shop", "web", Trouble{
		Conflicts: []Conflict{{Reason: "port", Cluster: cluster, Message: "port 80 differs"}},
		Held:      []HeldChange{{Reason: "drain_last_ready", Cluster: cluster}},
		Rejected:  []Rejection{{Cluster: cluster, Address: "127.0.0.1", Reason: "loopback"}},
		Orphans:   []OrphanStatus{{Cluster: "old-" + cluster, Endpoints: 1}},
	})
	answer := func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests}, nil
	}
	transport := m.Transport(RoleMember, cluster)(roundTripper(answer))
	_, _ = transport.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// exampleStatus is the example of package page.
func exampleStatus() Status {
	body, err := os.ReadFile("page/testdata/example.json")
	if err != nil {
		panic(err)
	}
	var s Status
	if err := json.Unmarshal(body, &s); err != nil {
		panic(err)
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
	table := map[string][]string{}
	for _, f := range Families() {
		table[f.Name] = f.Labels
	}
	for _, want := range []string{
		"change_latency_seconds{member_cluster,lane,stage}", "sync_lag_seconds{member_cluster}", "source_delay_seconds{member_cluster}",
		"cluster_up{member_cluster}", "cluster_synced{member_cluster}", "cluster_last_contact_seconds{member_cluster}",
		"cluster_condition{member_cluster,reason}", "writes_total{kind,verb,result}", "services{member_cluster}", "endpoints{member_cluster,state}",
		"rejected_addresses_total{member_cluster,reason}", "orphan_replicas{member_cluster}", "conflicts{reason}", "held_changes{member_cluster,reason}",
		"native_lag_seconds{member_cluster}", "kubeconfig_expiry_timestamp_seconds{member_cluster}",
		"sink_lag_seconds{sink}", "sink_requests_total{sink,result}", "sink_last_acknowledgement_timestamp_seconds{sink}", "sink_pending_services{sink}",
	} {
		name, labels, _ := strings.Cut(strings.TrimSuffix(want, "}"), "{")
		if got := strings.Join(table[name], ","); got != labels {
			t.Errorf("%s has labels %q; the contract says %q", name, got, labels)
		}
	}
}

// volatile are lines of an exposition that differ between runs.
var volatile = regexp.MustCompile(`(?m)^(# (HELP|TYPE) )?(go_|process_)[^\n]*\n|^tributary_(cluster_last_contact_seconds|config_last_reload_success_timestamp_seconds|client_request_duration_seconds_(bucket|sum)|build_info)\{?[^\n#]*\n`)

func TestExposition(t *testing.T) {
	golden.File(t, "testdata/metrics.txt", volatile.ReplaceAll(scraped(fed()), nil))
}

// TestDocs keeps docs/reference/metrics.md equal to the table, and both equal to what is
// served (TestTableIsWhatIsServed).
func TestDocs(t *testing.T) {
	golden.File(t, "../docs/reference/metrics.md", []byte(docs()))
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
