// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
)

var traceNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// lifeOf reports the life of 10.2.3.4: ready, terminating, gone; and changes of
// others around it.
func lifeOf(m *metrics.Metrics) {
	change := func(second int, service, event, state, ip string, result record.Result, edit func(*record.Change)) {
		arrival := traceNoon.Add(time.Duration(second) * time.Second)
		cause := record.Cause{
			Cluster: "idc-a", Kind: "Pod", Namespace: "shop", Name: "web-1", ResourceVersion: "77",
			Event: event, State: state, IP: ip, Arrival: arrival, Live: true,
		}
		rec := record.Begin("shop", service, "removal", []record.Cause{cause}, 0, arrival.Add(100*time.Microsecond))
		rec.Computed(arrival.Add(200 * time.Microsecond))
		edit(&rec)
		var err error
		if result == record.Failed {
			err = errors.New("update Endpoints shop/web: \x1b[31mtimeout")
		}
		rec.End(arrival.Add(2*time.Millisecond), result, err)
		m.Change(rec)
	}
	addr := []string{"10.2.3.4:8080"}
	change(0, "web", "modified", "ready", "10.2.3.4", record.Written, func(r *record.Change) { r.Added = addr })
	change(1, "other", "modified", "ready", "10.9.9.9", record.Written, func(r *record.Change) {
		r.Added = []string{"10.9.9.1:1", "10.9.9.2:1", "10.9.9.3:1", "10.9.9.4:1", "10.9.9.9:1"}
		r.CausesDropped = 3
	})
	change(2, "web", "modified", "terminating", "10.2.3.4", record.Failed, func(r *record.Change) { r.Unreadied = addr })
	change(3, "web", "modified", "terminating", "10.2.3.4", record.Written, func(r *record.Change) { r.Unreadied = addr })
	change(4, "web", "deleted", "", "", record.Written, func(r *record.Change) { r.Removed = addr })
	change(5, "web", "modified", "gone", "10.2.3.4", record.Dropped, func(*record.Change) {})
}

// traced runs `trace` against an instance with that history.
func traced(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	m := metrics.New(metrics.Options{})
	lifeOf(m)
	server := httptest.NewServer(page.Handler(m, nil))
	defer server.Close()
	var out, complaints bytes.Buffer
	code = dispatch(t.Context(), append([]string{"trace", "--server", server.URL}, args...), &out, &complaints)
	return code, out.String(), complaints.String()
}

func TestTraceTable(t *testing.T) {
	code, got, stderr := traced(t, "--limit=3")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "TIME ") {
		t.Fatalf("want headings and three changes:\n%s", got)
	}
	for i, parts := range [][]string{
		{"2026-03-01T12:00:03.002Z", "idc-a", "shop/web", "written", "2.00 ms", "Pod shop/web-1 modified (terminating)", "unready:10.2.3.4:8080"},
		{"2026-03-01T12:00:04.002Z", "Pod shop/web-1 deleted", "-10.2.3.4:8080"},
		{"2026-03-01T12:00:05.002Z", "dropped"},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[i+1], part) {
				t.Errorf("line %d has no %q: %s", i+1, part, lines[i+1])
			}
		}
	}
}

func TestTraceTableShortensAndCleans(t *testing.T) {
	_, got, _ := traced(t)
	for _, want := range []string{"+10.9.9.3:1 +2 more", "Pod shop/web-1 modified (ready) and 3 more", "error: update Endpoints shop/web: ?[31mtimeout"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestTraceStory: the story of an address, whole.
func TestTraceStory(t *testing.T) {
	code, got, stderr := traced(t, "--ip", "10.2.3.4", "--service=shop/web")
	want := `TIME                      AFTER      CLUSTER  SERVICE   EVENT                  DETAIL
2026-03-01T12:00:00.000Z             idc-a    shop/web  seen ready             Pod shop/web-1 modified (ready), resourceVersion 77
2026-03-01T12:00:00.002Z  +2.00 ms   idc-a    shop/web  written                in the ingress
2026-03-01T12:00:02.000Z             idc-a    shop/web  seen terminating       Pod shop/web-1 modified (terminating), resourceVersion 77
2026-03-01T12:00:02.002Z  +2.00 ms   idc-a    shop/web  failed                 update Endpoints shop/web: ?[31mtimeout
2026-03-01T12:00:03.000Z             idc-a    shop/web  seen terminating       Pod shop/web-1 modified (terminating), resourceVersion 77
2026-03-01T12:00:03.002Z  +2.00 ms   idc-a    shop/web  written                not ready: takes no new traffic
2026-03-01T12:00:04.000Z             idc-a    shop/web  seen gone              Pod shop/web-1 deleted, resourceVersion 77
2026-03-01T12:00:04.002Z  +2.00 ms   idc-a    shop/web  gone from the ingress  takes no traffic
2026-03-01T12:00:05.000Z             idc-a    shop/web  seen gone              Pod shop/web-1 modified (gone), resourceVersion 77
2026-03-01T12:00:05.002Z  +2.00 ms   idc-a    shop/web  nothing to write       the ingress stands as it should
`
	if code != exitOK || got != want || stderr != "" {
		t.Errorf("exit %d, stderr %q\n--- want\n%s--- got\n%s", code, stderr, want, got)
	}
}

// TestTraceStoryOfABurst: every event of the address's own pod has its time, also
// where one write answered several, and where another pod's came first.
func TestTraceStoryOfABurst(t *testing.T) {
	event := func(pod, ip, event, state string, after time.Duration) record.Cause {
		return record.Cause{Cluster: "idc-b", Kind: "Pod", Namespace: "shop", Name: pod, Event: event, State: state, IP: ip, Arrival: traceNoon.Add(after), Live: true}
	}
	rec := record.Begin("shop", "web", "removal", []record.Cause{
		event("web-9", "10.2.9.9", "modified", "ready", 0),
		event("web-1", "10.2.3.4", "deleted", "gone", 3*time.Millisecond),
		event("web-1", "10.2.3.4", "modified", "terminating", time.Millisecond),
	}, 0, traceNoon.Add(4*time.Millisecond))
	rec.Cause.Cluster = "idc-a"
	rec.Removed, rec.Stages.Echo = []string{"10.2.3.4:8080"}, 7*time.Millisecond
	rec.End(traceNoon.Add(6*time.Millisecond), record.Written, nil)
	var out bytes.Buffer
	story := newStory(&out, netip.MustParseAddr("10.2.3.4"))
	if err := story.tell(&rec); err != nil {
		t.Fatal(err)
	}
	want := `
2026-03-01T12:00:00.001Z             idc-b    shop/web  seen terminating       Pod shop/web-1 modified (terminating)
2026-03-01T12:00:00.003Z             idc-b    shop/web  seen gone              Pod shop/web-1 deleted (gone)
2026-03-01T12:00:00.006Z  +5.00 ms   idc-b    shop/web  gone from the ingress  takes no traffic; our watch showed it after 6.00 ms
`
	if _, rows, _ := strings.Cut(out.String(), "\n"); rows != want[1:] {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestTraceStoryKnowsNoOtherPods: where a change does not name the event of the
// address's own pod, another's state and time are not told for it.
func TestTraceStoryKnowsNoOtherPods(t *testing.T) {
	event := func(cluster, kind, name, state, ip string) record.Cause {
		return record.Cause{Cluster: cluster, Kind: kind, Namespace: "shop", Name: name, Event: "modified", State: state, IP: ip, Arrival: traceNoon, Live: true}
	}
	other := event("idc-b", "Pod", "web-9", "ready", "10.2.9.9")
	elsewhere := event("idc-a", "Pod", "web-8", "gone", "10.1.9.9")
	pending := event("idc-b", "Pod", "web-7", "not ready", "")
	service := event("idc-b", "Service", "web", "", "")
	list := record.Cause{Cluster: "idc-b", Kind: "Pod", Event: "relist", Arrival: traceNoon}
	const gone = "2026-03-01T12:00:00.006Z             idc-b    shop/web  gone from the ingress  takes no traffic; our watch showed it 1.00 ms later"
	const goneAfter = "2026-03-01T12:00:00.006Z  +6.00 ms   idc-b    shop/web  gone from the ingress  takes no traffic; our watch showed it after 7.00 ms"
	for _, test := range []struct {
		name    string
		causes  []record.Cause
		dropped int
		rows    []string
	}{
		{"its own was left out", []record.Cause{other, service, other}, 4, []string{
			"-                                    idc-b    shop/web  seen leaving           its own event was merged with 6 others", gone,
		}},
		{"left out, in several clusters", []record.Cause{other, elsewhere}, 1, []string{
			"-                                    -        shop/web  seen leaving           its own event was merged with 2 others",
			strings.Replace(gone, "idc-b", "-    ", 1),
		}},
		{"another pod's", []record.Cause{other}, 0, []string{
			"-                                    idc-b    shop/web  seen leaving           caused by an event of another pod", gone,
		}},
		{"other pods'", []record.Cause{other, pending}, 0, []string{
			"-                                    idc-b    shop/web  seen leaving           caused by 2 events of other pods", gone,
		}},
		{"the Service's", []record.Cause{other, service}, 0, []string{
			"2026-03-01T12:00:00.000Z             idc-b    shop/web  seen leaving           Service shop/web modified", goneAfter,
		}},
		{"a list", []record.Cause{list}, 0, []string{
			"2026-03-01T12:00:00.000Z             idc-b    shop/web  seen leaving           Pod relist", goneAfter,
		}},
		{"the pod by its other address", []record.Cause{event("idc-b", "Pod", "web-1", "gone", "fd00::4")}, 0, []string{
			"2026-03-01T12:00:00.000Z             idc-b    shop/web  seen gone              Pod shop/web-1 modified (gone)", goneAfter,
		}},
	} {
		rec := record.Begin("shop", "web", "removal", test.causes, test.dropped, traceNoon.Add(4*time.Millisecond))
		rec.Removed, rec.Stages.Echo = []string{"10.2.3.4:8080"}, 7*time.Millisecond
		rec.End(traceNoon.Add(6*time.Millisecond), record.Written, nil)
		var out bytes.Buffer
		if err := newStory(&out, netip.MustParseAddr("10.2.3.4")).tell(&rec); err != nil {
			t.Fatal(err)
		}
		if _, rows, _ := strings.Cut(out.String(), "\n"); rows != strings.Join(test.rows, "\n")+"\n" {
			t.Errorf("%s: got\n%swant\n%s", test.name, out.String(), strings.Join(test.rows, "\n"))
		}
	}
}

func TestTraceJSON(t *testing.T) {
	code, got, _ := traced(t, "-o", "json", "--result=written", "--cluster", "idc-a", "--since=2026-01-01T00:00:00Z")
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if code != exitOK || len(lines) != 4 {
		t.Fatalf("exit %d, %d lines\n%s", code, len(lines), got)
	}
	for _, line := range lines {
		var rec record.Change
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.Result != record.Written {
			t.Errorf("%v: %s", err, line)
		}
		if !strings.HasPrefix(line, `{"apiVersion":"tributary.dev/v1alpha1","kind":"Change","seq":`) {
			t.Errorf("no apiVersion and kind before the record: %s", line)
		}
	}
}

func TestTraceYAML(t *testing.T) {
	code, got, _ := traced(t, "-o", "yaml", "--limit=2")
	documents := strings.Split(got, "---\n")
	if code != exitOK || len(documents) != 3 || documents[0] != "" {
		t.Fatalf("exit %d\n%s", code, got)
	}
	for _, document := range documents[1:] {
		for _, want := range []string{"apiVersion: tributary.dev/v1alpha1\n", "\nkind: Change\n", "\nservice: web\n"} {
			if !strings.Contains(document, want) {
				t.Errorf("no %q in\n%s", want, document)
			}
		}
	}
}

func TestTraceNothingFound(t *testing.T) {
	code, got, stderr := traced(t, "--ip=10.0.0.99")
	if code != exitOK || got != "" || stderr != "No such change is remembered.\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, got, stderr)
	}
}

func TestTraceUsage(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--service", "web"}, `tributary trace: --service: "web" is not NAMESPACE/NAME`},
		{[]string{"--ip", "10.2.3"}, `tributary trace: --ip: "10.2.3" is not an IP address`},
		{[]string{"--since", "later"}, "tributary trace: --since: "},
		{[]string{"--result", "ok"}, "tributary trace: --result: "},
		{[]string{"--limit", "-1"}, "tributary trace: --limit: "},
		{[]string{"--server", "ftp://x"}, `tributary trace: --server: "ftp://x" is not an address`},
		{[]string{"--server", "http://"}, `tributary trace: --server: "http://" is not an address`},
		{[]string{"-o", "xml"}, "must be one of text, json, yaml, wide"},
		{[]string{"--nope"}, "unknown flag: --nope"},
		{[]string{"shop/web"}, `it takes no argument, and "shop/web" is one`},
	} {
		var stderr bytes.Buffer
		code := dispatch(t.Context(), append([]string{"trace"}, test.args...), io.Discard, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%v: exit %d, stderr %q; want exit %d, %q", test.args, code, stderr.String(), exitUsage, test.want)
		}
	}
}

func TestUnreachableInstance(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	commands := []string{"trace", "status"}
	for _, name := range commands {
		var stderr bytes.Buffer
		code := dispatch(t.Context(), []string{name, "--server", address}, io.Discard, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "answered 404 Not Found") {
			t.Errorf("%s at another server: exit %d, %q", name, code, stderr.String())
		}
	}
	server.Close()
	for _, name := range commands {
		var stderr bytes.Buffer
		code := dispatch(t.Context(), []string{name, "--server", address}, io.Discard, &stderr)
		for _, part := range []string{"tributary " + name + ": cannot reach http://" + address, "connection refused", "--server"} {
			if code != exitFailed || !strings.Contains(stderr.String(), part) {
				t.Errorf("%s: exit %d, no %q in %q", name, code, part, stderr.String())
			}
		}
	}
}

func TestGarbageAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>\n") }))
	defer server.Close()
	for _, name := range []string{"trace", "status"} {
		var stderr bytes.Buffer
		if code := dispatch(t.Context(), []string{name, "--server", server.URL}, io.Discard, &stderr); code != exitFailed || !strings.Contains(stderr.String(), "tributary of this version") {
			t.Errorf("%s: exit %d, %q", name, code, stderr.String())
		}
	}
}

// watcher is a stdout that tells when a text has been written to it.
type watcher struct {
	text  string
	found chan struct{}
	seen  strings.Builder
}

func (w *watcher) Write(p []byte) (int, error) {
	w.seen.Write(p)
	if w.found != nil && strings.Contains(w.seen.String(), w.text) {
		close(w.found)
		w.found = nil
	}
	return len(p), nil
}

func TestTraceFollows(t *testing.T) {
	m := metrics.New(metrics.Options{})
	lifeOf(m)
	ctx, interrupt := context.WithCancel(t.Context())
	serving, stopServing := context.WithCancel(t.Context())
	server := httptest.NewUnstartedServer(page.Handler(m, nil))
	server.Config.BaseContext = nil
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer context.AfterFunc(serving, cancel)()
		page.Handler(m, nil).ServeHTTP(w, r.WithContext(ctx))
	})
	server.Start()
	defer server.Close()

	follow := func(ctx context.Context, out *watcher) (code chan int, stderr *bytes.Buffer) {
		code, stderr = make(chan int, 1), new(bytes.Buffer)
		go func() {
			code <- dispatch(ctx, []string{"trace", "--server", server.URL, "--follow", "--service=shop/late"}, out, stderr)
		}()
		return code, stderr
	}
	report := func() {
		rec := record.Begin("shop", "late", "addition", nil, 0, time.Now())
		rec.End(time.Now(), record.Written, nil)
		m.Change(rec)
	}
	out := &watcher{text: "shop/late", found: make(chan struct{})}
	found := out.found
	code, stderr := follow(ctx, out)
	report()
	<-found
	interrupt()
	if got := <-code; got != exitOK || stderr.String() != "" {
		t.Errorf("interrupted: exit %d, stderr %q", got, stderr)
	}

	out = &watcher{text: "shop/late", found: make(chan struct{})}
	found = out.found
	code, stderr = follow(t.Context(), out)
	<-found
	stopServing()
	if got := <-code; got != exitFailed || !strings.Contains(stderr.String(), "ended the stream") {
		t.Errorf("stream ended: exit %d, stderr %q", got, stderr)
	}
}
