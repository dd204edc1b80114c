// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// written is a finished record of a removal: the first sample of package record.
func written() record.Change {
	all, err := os.ReadFile("../record/testdata/records.jsonl")
	if err != nil {
		panic(err)
	}
	var r record.Change
	if err := json.Unmarshal([]byte(strings.Split(string(all), "\n")[0]), &r); err != nil {
		panic(err)
	}
	return r
}

// ask asks a handler for a page.
func ask(handler http.Handler, method, target string) (status int, body string) {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(method, target, nil))
	return answer.Code, answer.Body.String()
}

// showing returns the handler of a process in a state.
func showing(s metrics.Status) (*metrics.Metrics, http.Handler) {
	m := metrics.New(metrics.Options{Status: func() metrics.Status { return s }})
	return m, Handler(m, quiet)
}

func TestHealthAndReadiness(t *testing.T) {
	for _, test := range []struct {
		status metrics.Status
		code   int
		body   string
	}{
		{metrics.Status{NotReady: []string{"first", "second"}}, 503, "not ready:\n- first\n- second\n"},
		{metrics.Status{Ready: true}, 200, "ok\n"},
		{metrics.Status{Ready: true, Leader: metrics.LeaderStatus{State: "leading", Identity: "a"}}, 200, "ok\nleading: a\n"},
		{metrics.Status{Ready: true, Leader: metrics.LeaderStatus{State: "standby", Holder: "b"}}, 200, "ok\nstandby: \"b\" leads\n"},
		{metrics.Status{Ready: true, Leader: metrics.LeaderStatus{State: "standby"}}, 200, "ok\nstandby: nobody leads\n"},
	} {
		_, handler := showing(test.status)
		if code, body := ask(handler, "GET", "/readyz"); code != test.code || body != test.body {
			t.Errorf("readyz: %d %q; want %d %q", code, body, test.code, test.body)
		}
		if code, body := ask(handler, "GET", "/healthz"); code != 200 || body != "ok\n" {
			t.Errorf("healthz: %d %q", code, body)
		}
	}
}

func TestPagesAreReadOnlyAndOthersSeeThree(t *testing.T) {
	m, handler := showing(metrics.Status{})
	for path, plain := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 503, "/debug/changes": 404, "/debug/status": 404, "/": 404, "/page.js": 404} {
		if code, _ := ask(handler, "POST", path); code < 400 {
			t.Errorf("POST %s: %d", path, code)
		}
		if code, _ := ask(handler, "GET", path); code == 404 {
			t.Errorf("GET %s: %d", path, code)
		}
		if code, _ := ask(Plain(m, quiet), "GET", path); code != plain {
			t.Errorf("GET %s for others: %d; want %d", path, code, plain)
		}
	}
}

func TestStatusIsWhatTheCommandsDecode(t *testing.T) {
	m, handler := showing(metrics.Status{Clusters: []metrics.ClusterStatus{{Name: "idc-a"}, {Name: "idc-b"}}})
	m.Report("shop", "web", metrics.Trouble{Conflicts: []metrics.Conflict{{Reason: "port", Cluster: "idc-b"}}})
	_, body := ask(handler, "GET", "/debug/status")
	var s metrics.Status
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil || len(s.Clusters) != 2 || s.ConflictCount != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestChanges(t *testing.T) {
	m, handler := showing(metrics.Status{})
	for i := range 5 {
		rec := written()
		rec.Service = fmt.Sprint("svc-", i%2)
		m.Change(rec)
	}
	for query, want := range map[string]string{
		"": "12345", "?service=shop/svc-0": "135", "?cluster=x": "", "?follow=false&cluster=idc-a": "12345",
	} {
		_, body := ask(handler, "GET", "/debug/changes"+query)
		got := ""
		for line := range strings.Lines(body) {
			var rec record.Change
			if err := json.Unmarshal([]byte(line), &rec); err != nil {
				t.Fatalf("%s: %v: %s", query, err, line)
			}
			got += fmt.Sprint(rec.Seq)
		}
		if got != want {
			t.Errorf("%q: records %q; want %q", query, got, want)
		}
	}
	if code, body := ask(handler, "GET", "/debug/changes?ip=banana"); code != 400 || body != "ip: \"banana\" is not an IP address\n" {
		t.Errorf("bad filter: %d %q", code, body)
	}
}

// reading is an answer that is read while it is written.
type reading struct {
	http.ResponseWriter
	mu  sync.Mutex
	buf bytes.Buffer
}

func (*reading) Flush() {}

func (r *reading) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// took returns the numbers of the records that came since the last call, "-" for a sign of
// life, and "?" for others.
func (r *reading) took() (got string) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.buf.String()) {
		var rec struct{ Seq, Missed uint64 }
		switch err := json.Unmarshal([]byte(line), &rec); {
		case line == "\n":
			got += "-"
		case err != nil || rec.Seq == 0:
			got += fmt.Sprintf("(missed %d)", rec.Missed)
		default:
			got += fmt.Sprint(rec.Seq)
		}
	}
	r.buf.Reset()
	return got
}

func TestFollowersGetEveryChangeOnceAndASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring, reader := record.NewRing(3, 0), &reading{}
		add := func(service string) {
			rec := written()
			rec.Service = service
			ring.Add(&rec)
		}
		took := func(want, when string) {
			t.Helper()
			if got := reader.took(); got != want {
				t.Errorf("%s: took %q; want %q", when, got, want)
			}
		}
		add("web")
		add("other")
		ctx, end := context.WithCancel(t.Context())
		s := &stream{w: reader, query: record.Query{Follow: true, Namespace: "shop", Service: "web"}}
		go s.serve(ctx, ring)
		took("1", "the past")
		add("web")
		took("3", "as it comes")
		for range 2 {
			for range 3 { // as many as the ring holds
				add("web")
			}
			synctest.Wait()
		}
		took("456789", "all that comes")
		late := &stream{w: reader, after: 1}
		late.next(ring)
		took("(missed 5)789", "what the ring has lost is told")
		for range 20 {
			time.Sleep(time.Second)
			add("other")
		}
		took("-", "what a reader does not want keeps no connection alive")
		end()
		add("web")
		synctest.Wait()
	})
}

// TestBrowsersGetEventsOfWhatComes, and nothing of what was before.
func TestBrowsersGetEventsOfWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, handler := showing(metrics.Status{})
		m.Change(written())
		ctx, end := context.WithCancel(t.Context())
		request := httptest.NewRequestWithContext(ctx, "GET", "/debug/changes?follow=true", nil)
		request.Header.Set("Accept", "text/event-stream")
		answer := httptest.NewRecorder()
		done := make(chan struct{})
		go func() { handler.ServeHTTP(answer, request); close(done) }()
		synctest.Wait()
		m.Change(written())
		synctest.Wait()
		end()
		<-done
		if body := answer.Body.String(); answer.Header().Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(body, `data: {"seq":2,`) || !strings.HasSuffix(body, "}\n\n") {
			t.Errorf("%v: %s", answer.Header(), body)
		}
	})
}

// TestServe: streams end with the server, and it returns when no handler runs any more.
func TestServe(t *testing.T) {
	m, handler := showing(metrics.Status{})
	m.Change(written())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, handler, quiet) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/debug/changes?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	first := make([]byte, 1)
	if _, err := response.Body.Read(first); err != nil {
		t.Fatal(err)
	}
	end()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
	listener.Close()
	if err := Serve(t.Context(), listener, handler, quiet); err == nil {
		t.Error("no error for a closed listener")
	}
}

// TestPage: what is wrong comes first, every section is there, and what a cluster calls its
// objects is text.
func TestPage(t *testing.T) {
	const evil = `<script>alert(1)</script>` + "\u202e"
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m, handler := showing(metrics.Status{
		Version: "v0.1.0", Ready: true, Time: now, Started: now.Add(-time.Hour), Ingress: metrics.IngressStatus{Up: true, State: "live", Replicas: 12345},
		Clusters: []metrics.ClusterStatus{
			{Name: "idc-a", State: "live", Up: true, Synced: true, Endpoints: metrics.EndpointCounts{Ready: 7, Reserve: 3}},
			{Name: evil, State: "unreachable", LastError: evil, Conditions: []metrics.Condition{{Reason: "Stale", Message: evil}}},
		},
		Sinks: []metrics.SinkStatus{{Name: "slb", State: "failing", LastError: evil}},
	})
	rec := written()
	rec.Error, rec.Added = evil, []string{"10.0.0.1:80", evil}
	m.Change(rec)
	m.Report("shop", evil, metrics.Trouble{
		Conflicts: []metrics.Conflict{{Reason: "foreign_object", Message: evil}}, Rejected: []metrics.Rejection{{Cluster: "idc-a", Address: evil, Reason: "loopback"}},
	})
	code, body := ask(handler, "GET", "/")
	if code != 200 || strings.Contains(body, "<script>alert") || strings.Contains(body, "\u202e") {
		t.Errorf("%d: %s", code, body)
	}
	for _, want := range []string{
		"verdict bad", "is unreachable", "foreign object", "loopback", "12345", ">idc-a<", "Stale", "slb", "10.2.3.4:8080", "2.4 ms", `"Reserve" class="n">3<`, "as JSON lines",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if first, table := strings.Index(body, "verdict bad"), strings.Index(body, `id="clusters"`); first > table {
		t.Error("what is wrong does not come first")
	}
	_, handler = showing(metrics.Status{Ready: true, Ingress: metrics.IngressStatus{Up: true}})
	if _, body = ask(handler, "GET", "/"); !strings.Contains(body, "All is well.") {
		t.Error("nothing is wrong, and the page does not say so")
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 123 * time.Microsecond: "0.12 ms", 2375 * time.Microsecond: "2.4 ms", 250 * time.Millisecond: "250 ms", 2500 * time.Millisecond: "2.5 s",
		90 * time.Second: "90s", 72 * time.Hour: "3d",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v is %q; want %q", d, got, want)
		}
	}
	if got := visible("a\nb\x00" + strings.Repeat("x", 1000)); !strings.HasPrefix(got, "a b\ufffd") || len(got) > maxText+10 {
		t.Errorf("%q", got)
	}
}
