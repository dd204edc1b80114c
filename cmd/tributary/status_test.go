// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
)

func troubledStatus() metrics.Status {
	s := metrics.Status{
		Version: "v0.1.0", Started: traceNoon.Add(-3*time.Hour - 2*time.Minute), Time: traceNoon,
		NotReady: []string{"member idc-b: first sync"},
		Config:   metrics.ConfigStatus{File: "config.yaml", Error: "clusters[1].name: idc-a is named twice"},
		Ingress:  metrics.IngressStatus{State: "live", Up: true, Version: "v1.36.3", Replicas: 3, LastContact: traceNoon.Add(-time.Second), LastError: "watch services: EOF"},
		Clusters: []metrics.ClusterStatus{
			{Name: "idc-a", State: "live", Version: "v1.36.3", Services: 2, Pods: 5, LastContact: traceNoon.Add(-200 * time.Millisecond)},
			{Name: "idc-b", State: "silent", Reason: "Unreachable", Panic: true, Stale: true, DrainSince: traceNoon, LagSeconds: 75, Remarks: []string{"nodes may not be listed: zones are left out"}, LastError: "list pods: \x1b[31mrefused", LastErrorAt: traceNoon.Add(-30 * time.Second)},
		},
		Orphans: []metrics.OrphanStatus{{Cluster: "idc-old", Replicas: 12, Endpoints: 30, Since: traceNoon.Add(-time.Minute)}},
		Sinks: []metrics.SinkStatus{{Name: "slb", URL: "https://slb/", State: "failing", LagSeconds: 75, Services: 12, Pending: 2, Refused: 1, Requests: 40, Failures: 3,
			LastAcknowledged: traceNoon.Add(-time.Minute), LastError: "it answers 503 Service Unavailable", Unkept: "forbidden"}},
		Lanes:     []metrics.LaneStatus{{Name: "removal"}, {Name: "bulk", Depth: 7, OldestSeconds: 2}},
		Conflicts: []metrics.Conflict{{Namespace: "shop", Service: "web", Reason: "foreign_object", Message: "not ours; rename or delete it", Since: traceNoon.Add(-time.Hour)}},
		Held:      []metrics.HeldChange{{Cluster: "idc-b", Reason: "list_shrank", Message: "40 % vanished", Release: "tributary release --cluster idc-b", Since: traceNoon.Add(-time.Minute)}},
		Rejected:  []metrics.Rejection{{Namespace: "shop", Service: "web", Cluster: "idc-a", Address: "127.0.0.1", Reason: "loopback", Since: traceNoon}},
	}
	s.Clusters[0].Endpoints.Ready, s.Clusters[0].Endpoints.NotReady, s.Clusters[0].Endpoints.Damped = 4, 2, 1
	s.Clusters[0].Native = &metrics.NativeStatus{BehindSeconds: 180, DifferingCount: 1, Differing: []metrics.NativeDifference{{
		Cluster: "idc-a", Namespace: "shop", Service: "web", Since: traceNoon.Add(-time.Minute), Theirs: []string{"10.0.0.1:8080/TCP"},
	}}}
	return s
}

func TestStatusText(t *testing.T) {
	s := troubledStatus()
	s.ConflictCount, s.HeldCount, s.RejectedCount = 1, 1, 201
	rec := record.Begin("shop", "web", "removal", []record.Cause{{Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: "web-1", Event: "deleted", Arrival: traceNoon, Live: true}}, 0, traceNoon.Add(time.Millisecond))
	rec.Computed(traceNoon.Add(2 * time.Millisecond))
	rec.End(traceNoon.Add(12*time.Millisecond), record.Written, nil)
	s.Slowest = []*record.Change{&rec}
	var out bytes.Buffer
	if err := printStatus(&out, &s, false); err != nil {
		t.Fatal(err)
	}
	want := `Version:  v0.1.0, up for 3h2m
Ready:    no: member idc-b: first sync
Ingress:  live, v1.36.3, 3 replicas, last contact 1.0s ago
          last error: watch services: EOF
Config:   refused, or part of what it wants; what was accepted stays: clusters[1].name: idc-a is named twice

Clusters
NAME   STATE                                        VERSION  SERVICES  PODS  READY  NOT READY     LAG   LAST CONTACT  LAST ERROR
idc-a  live                                         v1.36.3  2         5     4      2 (1 damped)  0.0s  0.2s ago      -
idc-b  silent (Unreachable), panic, stale, drained  -        0         0     0      0             75s   never         list pods: ?[31mrefused (30s ago)
idc-b: nodes may not be listed: zones are left out

Orphans: not configured, and their endpoints stay as they were; put the cluster back, or drain it first
CLUSTER  REPLICAS  ENDPOINTS  SINCE
idc-old  12        30         60s ago

Queue
LANE     WAITING  WORKING  OLDEST
removal  0        0        0.0s
bulk     7        0        2.0s

Sinks
NAME  STATE    SERVICES  PENDING  REFUSED  LAG  REQUESTS  FAILURES  LAST ACKNOWLEDGED  LAST ERROR
slb   failing  12        2        1        75s  40        3         60s ago            it answers 503 Service Unavailable; what is acknowledged is not kept: forbidden

Conflicts
SERVICE   REASON          CLUSTER  SINCE      MESSAGE
shop/web  foreign_object  -        60m0s ago  not ours; rename or delete it

Held changes
CLUSTER  SERVICE  REASON       SINCE    MESSAGE        RELEASE
idc-b    -        list_shrank  60s ago  40 % vanished  tributary release --cluster idc-b

The clusters' own controller managers
CLUSTER  BEHIND  DIFFERING
idc-a    3m0s    1

Differences from the members' own Endpoints
CLUSTER  SERVICE   SINCE    OURS  THEIRS
idc-a    shop/web  60s ago  none  10.0.0.1:8080/TCP

Rejected addresses
CLUSTER  SERVICE   ADDRESS    REASON    SINCE
idc-a    shop/web  127.0.0.1  loopback  0.0s ago
… and 200 more

Slowest recent changes
TIME                      CLUSTER  SERVICE   TOTAL    QUEUE    COMPUTE  WRITE    CAUSE
2026-03-01T12:00:00.012Z  idc-a    shop/web  12.0 ms  1.00 ms  1.00 ms  10.0 ms  Pod shop/web-1 deleted
`
	if out.String() != want {
		t.Errorf("--- want\n%s--- got\n%s", want, out.String())
	}
}

func TestStatusCommand(t *testing.T) {
	m := metrics.New(metrics.Options{Status: troubledStatus})
	server := httptest.NewServer(page.Handler(m, nil))
	defer server.Close()
	for _, format := range []string{"text", "json", "yaml"} {
		var out, stderr bytes.Buffer
		if code := dispatch(t.Context(), []string{"status", "--server", server.URL, "-o", format}, &out, &stderr); code != exitOK || stderr.String() != "" {
			t.Fatalf("%s: exit %d, %s", format, code, stderr.String())
		}
		if format == "text" {
			if !strings.HasPrefix(out.String(), "Version:  v0.1.0") {
				t.Errorf("text: %s", out.String())
			}
			continue
		}
		var s struct {
			APIVersion, Kind string
			metrics.Status
		}
		if err := yaml.Unmarshal(out.Bytes(), &s); err != nil || len(s.Clusters) != 2 || s.APIVersion != config.APIVersion || s.Kind != "Status" {
			t.Errorf("%s: %v: %s", format, err, out.String())
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestStatusToABrokenPipe(t *testing.T) {
	s := troubledStatus()
	if err := printStatus(brokenPipe{}, &s, false); err == nil {
		t.Error("no error")
	}
}

// TestStatusOfOne: --cluster and --service leave what concerns them, and --exit-code
// judges that.
func TestStatusOfOne(t *testing.T) {
	quiet := troubledStatus() // but what it says of all names neither member
	quiet.NotReady, quiet.Config.Error = []string{"cluster idc-c has not been listed yet"}, "clusters[2].context: there is none"
	m := metrics.New(metrics.Options{Status: func() metrics.Status { return quiet }})
	server := httptest.NewServer(page.Handler(m, nil))
	defer server.Close()
	for _, test := range []struct {
		args []string
		code int
		has  []string
		not  []string
	}{
		{[]string{"--exit-code"}, exitFailed, []string{"idc-a", "idc-b", "Held", "Conflicts"}, nil},
		{[]string{"--cluster", "idc-a", "--exit-code"}, exitOK, []string{"idc-a"}, []string{"idc-b", "Held", "Conflicts", "Queue"}},
		{[]string{"--cluster", "idc-b", "--wait", "1ms"}, exitFailed, []string{"idc-b", "Held"}, []string{"idc-a"}},
		{[]string{"--service", "shop/other"}, exitOK, []string{"Held"}, []string{"Conflicts", "Rejected"}}, // held is a whole member
		{[]string{"--cluster", "idc-z"}, exitFailed, []string{`"idc-z" not found; there are idc-a, idc-b`}, nil},
		{[]string{"--service", "web"}, exitUsage, []string{"is not NAMESPACE/NAME"}, nil},
	} {
		var out bytes.Buffer
		code := dispatch(t.Context(), append([]string{"status", "--server", server.URL}, test.args...), &out, &out)
		if code != test.code {
			t.Errorf("%q: exit %d; want %d", test.args, code, test.code)
		}
		for _, word := range test.has {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%q lacks %q:\n%s", test.args, word, out.String())
			}
		}
		for _, word := range test.not {
			if strings.Contains(out.String(), word) {
				t.Errorf("%q shows %q:\n%s", test.args, word, out.String())
			}
		}
	}
}

// TestNoMemberYet: while the ingress cluster was not listed, one that is a Secret there may be a member.
func TestNoMemberYet(t *testing.T) {
	m := metrics.New(metrics.Options{Status: func() metrics.Status { return metrics.Status{Leader: metrics.LeaderStatus{Phase: "waiting"}} }})
	server := httptest.NewServer(page.Handler(m, nil))
	defer server.Close()
	var out bytes.Buffer
	if code := dispatch(t.Context(), []string{"status", "--server", server.URL, "--cluster", "idc-a"}, &out, &out); code != exitFailed || !strings.Contains(out.String(), "the ingress cluster has not been listed yet") {
		t.Errorf("exit %d: %s", code, &out)
	}
}

// TestOneMemberIsJudgedByItself: what another member has in work, or keeps the process from being ready, is none of its
// business; its own state, lag, held changes and conflicts are, and so is the ingress cluster.
func TestOneMemberIsJudgedByItself(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*metrics.Status)
		ill    bool
	}{
		"others' trouble": {func(*metrics.Status) {}, false},
		"not live":        {func(s *metrics.Status) { s.Clusters[0].State = "silent" }, true},
		"a reason":        {func(s *metrics.Status) { s.Clusters[0].Reason = "IdentityMismatch" }, true},
		"stale":           {func(s *metrics.Status) { s.Clusters[0].Stale = true }, true},
		"its key waits":   {func(s *metrics.Status) { s.Clusters[0].LagSeconds = 0.01 }, true},
		"drained, and away": {func(s *metrics.Status) {
			s.Clusters[0].State, s.Clusters[0].Reason, s.Clusters[0].Stale, s.Clusters[0].DrainSince = "silent", "Unreachable", true, s.Time
		}, false},
		"being drained": {func(s *metrics.Status) { s.Clusters[0].DrainSince, s.Clusters[0].LagSeconds = s.Time, 0.01 }, true},
		"drained, but for the last": {func(s *metrics.Status) {
			s.Clusters[0].State, s.Clusters[0].DrainSince, s.Held[0].Cluster, s.Held[0].Reason = "silent", s.Time, "idc-a", "drain_last_ready"
		}, true},
		"held":               {func(s *metrics.Status) { s.Held[0].Cluster = "idc-a" }, true},
		"in conflict":        {func(s *metrics.Status) { s.Conflicts[0].Cluster = "idc-a" }, true},
		"no ingress cluster": {func(s *metrics.Status) { s.Ingress.Up = false }, true},
		"not there":          {func(s *metrics.Status) { s.Clusters = s.Clusters[1:] }, true},
	} {
		s := troubledStatus()
		s.ConflictCount, s.HeldCount = 1, 1
		test.change(&s)
		if all := s; well(&all, "") {
			t.Errorf("%s: the whole is well", name)
		}
		if s.Narrow(metrics.Scope{Cluster: "idc-a"}); well(&s, "idc-a") == test.ill {
			t.Errorf("%s: well is %t", name, test.ill)
		}
	}
}

// TestStatusDoesNotWaitForAWrongQuestion: it would be as wrong later.
func TestStatusDoesNotWaitForAWrongQuestion(t *testing.T) {
	server := httptest.NewServer(page.Handler(metrics.New(metrics.Options{Status: func() metrics.Status { return metrics.Status{Ready: true} }}), nil))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"--server", "::"}, exitUsage}, {[]string{"--context", "nosuch"}, exitUsage},
		{[]string{"--server", server.URL, "--cluster", "nosuch"}, exitFailed},
	} {
		var out bytes.Buffer
		if code := dispatch(ctx, append([]string{"status", "--wait", "10m"}, test.args...), &out, &out); code != test.code || ctx.Err() != nil {
			t.Errorf("%q: exit %d, %v\n%s", test.args, code, ctx.Err(), &out)
		}
	}
}

// TestNarrowStatusBeforeItIsBounded: whatever troubles others have, a member's and a replica's own are told.
func TestNarrowStatusBeforeItIsBounded(t *testing.T) {
	m := metrics.New(metrics.Options{Status: func() metrics.Status {
		s := metrics.Status{Ready: true, Ingress: metrics.IngressStatus{Up: true}}
		for _, name := range []string{"idc-a", "idc-b"} {
			s.Clusters = append(s.Clusters, metrics.ClusterStatus{Name: name, State: "live", Up: true, Synced: true})
		}
		return s
	}})
	trouble := func(cluster string) metrics.Trouble {
		return metrics.Trouble{
			Conflicts: []metrics.Conflict{{Reason: "port", Cluster: cluster}}, Held: []metrics.HeldChange{{Reason: "list_shrank", Cluster: cluster}},
			Rejected: []metrics.Rejection{{Reason: "loopback", Cluster: cluster, Address: "127.0.0.1"}},
		}
	}
	for i := range metrics.MaxTroubles + 10 {
		m.Report("shop", fmt.Sprintf("a-%03d", i), trouble("idc-a"))
	}
	m.Report("shop", "web", trouble("idc-b"))
	server := httptest.NewServer(page.Handler(m, nil))
	defer server.Close()
	for _, test := range []struct {
		args []string
		want int
	}{{[]string{"--cluster", "idc-b"}, 1}, {[]string{"--cluster", "idc-a"}, metrics.MaxTroubles}} {
		var out, errs bytes.Buffer
		code := dispatch(t.Context(), append([]string{"status", "--server", server.URL, "--exit-code", "-o", "json"}, test.args...), &out, &errs)
		var s metrics.Status
		if err := json.Unmarshal(out.Bytes(), &s); err != nil || code != exitFailed {
			t.Errorf("%q: exit %d, %v\n%s", test.args, code, err, &errs)
		}
		all := map[bool]int{true: metrics.MaxTroubles + 10, false: 1}[test.want > 1]
		if len(s.Conflicts) != test.want || len(s.Held) != test.want || len(s.Rejected) != test.want || s.ConflictCount != all || s.HeldCount != all || s.RejectedCount != all {
			t.Errorf("%q: %d of %d conflicts, %d of %d held, %d of %d rejected", test.args, len(s.Conflicts), s.ConflictCount, len(s.Held), s.HeldCount, len(s.Rejected), s.RejectedCount)
		}
	}
	if s := m.StatusOf(metrics.Scope{Namespace: "shop", Service: "web"}); len(s.Conflicts) != 1 || len(s.Held) != 1 || len(s.Rejected) != 1 {
		t.Errorf("of one replica: %v, %v, %v", s.Conflicts, s.Held, s.Rejected)
	}
}
