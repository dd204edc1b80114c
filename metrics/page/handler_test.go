// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

func get(t *testing.T, handler http.Handler, target string) []byte {
	t.Helper()
	status, body := ask(handler, http.MethodGet, target)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", target, status, body)
	}
	return body
}

func ask(handler http.Handler, method, target string) (status int, body []byte) {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(method, target, nil))
	return answer.Code, answer.Body.Bytes()
}

func TestHealthAndReadiness(t *testing.T) {
	reasons := []string{"ingress cluster: first sync", "member idc-a: first sync"}
	m := metrics.New(metrics.Options{NotReady: func() []string { return reasons }})
	handler := Handler(m, nil)
	if code, body := ask(handler, http.MethodGet, "/healthz"); code != http.StatusOK || string(body) != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	want := "not ready:\n- ingress cluster: first sync\n- member idc-a: first sync\n"
	if code, body := ask(handler, http.MethodGet, "/readyz"); code != http.StatusServiceUnavailable || string(body) != want {
		t.Errorf("readyz: %d %q", code, body)
	}
	reasons = nil
	if code, body := ask(handler, http.MethodGet, "/readyz"); code != http.StatusOK || string(body) != "ok\n" {
		t.Errorf("readyz: %d %q", code, body)
	}
}

func TestPagesAreReadOnly(t *testing.T) {
	handler := Handler(metrics.New(metrics.Options{}), nil)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/debug/changes", "/debug/status"} {
		if code, _ := ask(handler, http.MethodPost, path); code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	if code, _ := ask(handler, http.MethodGet, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("GET /debug/pprof/: %d", code)
	}
}

func TestStatusPage(t *testing.T) {
	m := metrics.New(metrics.Options{Status: exampleStatus})
	m.Change(written())
	m.Report("shop", "web", metrics.Trouble{
		Conflicts: []metrics.Conflict{{Reason: "foreign_object", Message: "Service shop/web is not ours; delete or rename it"}},
		Rejected:  []metrics.Rejection{{Cluster: "idc-a", Address: strings.Repeat("x", 1000), Reason: "malformed"}},
	})
	body := get(t, Handler(m, nil), "/debug/status")
	var status metrics.Status
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&status); err != nil {
		t.Fatal(err)
	}
	if len(status.Clusters) != 2 || len(status.Slowest) != 1 || status.ConflictCount != 1 || status.HeldCount != 1 {
		t.Errorf("status: %s", body)
	}
	if n := len(status.Rejected[0].Address); n > 200 {
		t.Errorf("an address of %d bytes is shown", n)
	}
	since := status.Conflicts[0].Since
	body = bytes.ReplaceAll(body, []byte(since.Format(time.RFC3339Nano)), []byte("SINCE"))
	body = bytes.ReplaceAll(body, []byte(status.Slowest[0].TraceID), []byte("TRACE"))
	golden.File(t, "testdata/status.json", body)
}

// TestNativePageHasAll: a backlog is longer than a status is.
func TestNativePageHasAll(t *testing.T) {
	m := metrics.New(metrics.Options{Status: func() metrics.Status {
		native := &metrics.NativeStatus{DifferingCount: 1000}
		for i := range native.DifferingCount {
			native.Differing = append(native.Differing, metrics.NativeDifference{Cluster: "idc-a", Namespace: "shop", Service: fmt.Sprint("svc-", i)})
		}
		return metrics.Status{Clusters: []metrics.ClusterStatus{{Name: "idc-a", Native: native}, {Name: "idc-b"}}}
	}})
	if n := bytes.Count(get(t, Handler(m, nil), "/debug/native"), []byte("\n")); n != 1000 {
		t.Errorf("%d differences are listed; want all", n)
	}
	if native := m.Status().Clusters[0].Native; len(native.Differing) != 200 || native.DifferingCount != 1000 {
		t.Errorf("a status lists %d of %d", len(native.Differing), native.DifferingCount)
	}
	if body := get(t, Handler(metrics.New(metrics.Options{}), nil), "/debug/native"); len(body) != 0 {
		t.Errorf("without a status: %q", body)
	}
}

func TestChangesPage(t *testing.T) {
	m := metrics.New(metrics.Options{})
	for i := range 5 {
		rec := written()
		rec.Service = fmt.Sprint("svc-", i%2)
		m.Change(rec)
	}
	for _, test := range []struct {
		query string
		want  string
	}{
		{"", "12345"},
		{"?service=shop/svc-0", "135"},
		{"?service=shop/svc-0&limit=2", "35"},
		{"?limit=100", "12345"},
		{"?result=held", ""},
		{"?follow=false&limit=1", "5"},
	} {
		got := ""
		for line := range bytes.Lines(get(t, Handler(m, nil), "/debug/changes"+test.query)) {
			var rec record.Change
			if err := json.Unmarshal(line, &rec); err != nil {
				t.Fatalf("%s: %v: %s", test.query, err, line)
			}
			got += fmt.Sprint(rec.Seq)
		}
		if got != test.want {
			t.Errorf("%q: records %q; want %q", test.query, got, test.want)
		}
	}
	code, body := ask(Handler(m, nil), http.MethodGet, "/debug/changes?ip=banana")
	if want := "parameter \"ip\": \"banana\" is not an IP address\n"; code != http.StatusBadRequest || string(body) != want {
		t.Errorf("bad filter: %d %q; want %q", code, body, want)
	}
}

// serving starts Serve on a loopback port. stop ends it and returns its error.
func serving(t *testing.T, m *metrics.Metrics) (url string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, Handler(m, nil), slog.New(slog.DiscardHandler)) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		_ = stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + listener.Addr().String(), stop
}

func TestFollowStreamsUntilTheServerEnds(t *testing.T) {
	m := metrics.New(metrics.Options{})
	first := written()
	m.Change(first)
	url, stop := serving(t, m)
	response, err := http.Get(url + "/debug/changes?follow=true&service=shop/web")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() (rec record.Change) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("stream ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			t.Fatalf("%v: %q", err, lines.Text())
		}
		return rec
	}
	if rec := next(); rec.Seq != 1 {
		t.Errorf("first record is %d", rec.Seq)
	}
	for i := range 3 {
		other := written()
		other.Service = "other"
		m.Change(other)
		m.Change(written())
		if rec := next(); rec.Seq != uint64(3+2*i) {
			t.Errorf("next record is %d; want %d", rec.Seq, 3+2*i)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if lines.Scan() {
		t.Errorf("after the end came %q", lines.Text())
	}
}

// TestSlowFollower: a reader that takes nothing is told how much it missed and
// does not hold up anybody.
func TestSlowFollower(t *testing.T) {
	ring := record.NewRing(8, 0)
	answer := httptest.NewRecorder()
	s := newStream(answer, record.ChangesQuery{Follow: true})
	if !s.past(ring) {
		t.Fatal("past failed")
	}
	for range 20 {
		rec := written()
		ring.Add(&rec)
	}
	if _, alive := s.next(ring, time.Now()); !alive {
		t.Fatal("next failed")
	}
	lines := strings.Split(strings.TrimSpace(answer.Body.String()), "\n")
	if lines[0] != `{"missed":12}` || len(lines) != 9 {
		t.Errorf("%d lines, first %s; want a note about 12 missed and 8 records", len(lines), lines[0])
	}
}

// TestStalledReaderEndsItsStream: nothing is read, the buffers fill, the
// deadline passes, the handler returns; Serve can end.
func TestServeEndsWhileAReaderStalls(t *testing.T) {
	m := metrics.New(metrics.Options{})
	rec := written()
	for i := range 2_000 {
		rec.Removed = append(rec.Removed, fmt.Sprintf("10.0.%d.%d:80", i/250, i%250))
	}
	for range 500 {
		m.Change(rec)
	}
	url, stop := serving(t, m)
	connection, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET /debug/changes?follow=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	one := make([]byte, 1)
	if _, err := io.ReadFull(connection, one); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := stop(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("ending took %v", took)
	}
}

func TestServeReportsABrokenListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := Serve(t.Context(), listener, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no error for a closed listener")
	}
}

func TestOpenMetrics(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	answer := httptest.NewRecorder()
	Handler(metrics.New(metrics.Options{Status: exampleStatus}), nil).ServeHTTP(answer, request)
	if !strings.HasPrefix(answer.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(answer.Body.String(), "# EOF\n") {
		t.Errorf("OpenMetrics is not served: %s", answer.Header())
	}
}

// A lock that nobody lets go of makes /healthz fail, which takes no lock itself.
func TestHealthzFindsADeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		var locked atomic.Bool
		m := metrics.New(metrics.Options{Status: func() metrics.Status {
			if locked.Load() {
				<-held
			}
			return metrics.Status{}
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Prove(ctx) }()
		healthy := func() bool {
			answer := httptest.NewRecorder()
			Handler(m, nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			return answer.Code == http.StatusOK
		}
		time.Sleep(10 * time.Minute)
		if !healthy() {
			t.Error("not healthy although all is well")
		}
		locked.Store(true)
		time.Sleep(time.Minute)
		if healthy() {
			t.Error("healthy although the status hangs")
		}
		close(held)
		synctest.Wait()
		if !healthy() {
			t.Error("not healthy although it goes on")
		}
		cancel()
		<-done
	})
}

// TestReadersOfChangesAreBounded: as many as may follow, one more is told to come later,
// other pages are served all the same, and who leaves makes room.
func TestReadersOfChangesAreBounded(t *testing.T) {
	url, _ := serving(t, metrics.New(metrics.Options{}))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	open := func(page string) *http.Response {
		t.Helper()
		response, err := client.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	const follow = "/debug/changes?follow=true"
	var readers []*http.Response
	for range maxReaders {
		response := open(follow)
		if response.StatusCode != http.StatusOK {
			t.Fatalf("reader %d: %s", len(readers)+1, response.Status)
		}
		readers = append(readers, response)
	}
	refused := open(follow)
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s, Retry-After %q", refused.Status, refused.Header.Get("Retry-After"))
	}
	refused.Body.Close()
	status := open("/debug/status")
	if status.StatusCode != http.StatusOK {
		t.Errorf("status beside many readers: %s", status.Status)
	}
	status.Body.Close()
	readers[0].Body.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		again := open(follow)
		again.Body.Close()
		if again.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody takes the place of who left: %s", again.Status)
		}
	}
	for _, reader := range readers[1:] {
		reader.Body.Close()
	}
}
