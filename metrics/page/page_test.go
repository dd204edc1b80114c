// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"tributary.dev/tributary/internal/golden"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// pageMetrics has one of everything that the page shows, at fixed times.
func pageMetrics() *metrics.Metrics {
	m := metrics.New(metrics.Options{Status: func() metrics.Status {
		s := exampleStatus()
		s.Conflicts = []metrics.Conflict{{Namespace: "shop", Service: "web", Reason: "foreign_object", Message: "not ours; delete or rename it", Since: noon.UTC()}}
		s.Rejected = []metrics.Rejection{{Namespace: "shop", Service: "web", Cluster: "idc-a", Address: "127.0.0.1", Reason: "loopback", Since: noon.UTC()}}
		s.Config.Error = "config.yaml: clusters[0].name: empty"
		return s
	}})
	m.Change(written())
	m.Change(burst())
	held := written()
	held.Result, held.Error = record.Held, "guard: too many endpoints would go"
	m.Change(held)
	dropped := written()
	dropped.Result, dropped.Removed = record.Dropped, nil
	m.Change(dropped)
	return m
}

func TestPage(t *testing.T) {
	golden.File(t, "testdata/page.html", get(t, Handler(pageMetrics(), nil), "/"))
}

// TestEmptyPage: before anything is known the page says so.
func TestEmptyPage(t *testing.T) {
	body := string(get(t, Handler(metrics.New(metrics.Options{}), nil), "/"))
	for _, want := range []string{"Not ready.", "No cluster is configured.", "Nothing is held.", "No conflict.", "No change yet."} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestPageFilter(t *testing.T) {
	handler := Handler(pageMetrics(), nil)
	for _, test := range []struct {
		query, rows string
		status      int
		want        []string
	}{
		{"", "4 3 2 1", 200, []string{"Newest first: 4 of the 4 remembered."}},
		{"?service=&ip=", "4 3 2 1", 200, []string{`href="debug/changes"`}},
		{"?service=+shop/web+&ip=", "4 3 2 1", 200, []string{`value="shop/web"`, `href="debug/changes?service=shop%2Fweb"`, "Show all"}},
		{"?ip=10.2.3.6", "2", 200, []string{"1 of 1 that match", `value="10.2.3.6"`}},
		{"?ip=fd00::4", "2", 200, []string{`href="./?ip=fd00%3a%3a4#changes"`}},
		{"?service=shop/other", "", 200, []string{"No change that is still remembered matches."}},
		{"?service=web", "", 400, []string{`The parameter &#34;service&#34;: &#34;web&#34; is not NAMESPACE/NAME.`, `id="service" name="service" value="web"`}},
		{"?ip=banana&service=shop/web", "", 400, []string{"is not an IP address", `value="banana"`, `value="shop/web"`}},
		{"?ip=10.2.3.6&ip=10.2.3.7", "", 400, []string{"given more than once"}},
		{"?follow=true", "", 400, []string{"The page knows the parameters service and ip, not &#34;follow&#34;."}},
	} {
		status, body := ask(handler, http.MethodGet, "/"+test.query)
		if status != test.status {
			t.Errorf("%q: status %d; want %d", test.query, status, test.status)
		}
		for _, want := range test.want {
			if !bytes.Contains(body, []byte(want)) {
				t.Errorf("%q: the page lacks %s", test.query, want)
			}
		}
		rows := ""
		for _, id := range regexp.MustCompile(`<tr role="row" id="c(\d+)">`).FindAllSubmatch(body, -1) {
			rows += " " + string(id[1])
		}
		if rows = strings.TrimSpace(rows); rows != test.rows {
			t.Errorf("%q: rows %q; want %q", test.query, rows, test.rows)
		}
		invalid := bytes.Count(body, []byte("aria-invalid"))
		if wrong := test.status == 400 && !strings.Contains(test.query, "follow"); wrong != (invalid == 1) {
			t.Errorf("%q: %d fields are marked", test.query, invalid)
		}
	}
}

// TestPageIsGuarded: the policy forbids whatever is not the page's own.
func TestPageIsGuarded(t *testing.T) {
	answer := httptest.NewRecorder()
	Handler(pageMetrics(), nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	policy := answer.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
	if answer.Header().Get("Cache-Control") != "no-store" || answer.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", answer.Header())
	}
	body := answer.Body.String()
	if bad := regexp.MustCompile(`(?i)<style|<script>| style=| on[a-z]+=|https?://`).FindString(body); bad != "" {
		t.Errorf("the page holds %q", bad)
	}
}

func TestPageAnswersOnlyToReading(t *testing.T) {
	handler := Handler(pageMetrics(), nil)
	for _, path := range []string{"/", "/page.css", "/page.js", "/page.svg"} {
		if code, _ := ask(handler, http.MethodPost, path); code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, code)
		}
		if code, _ := ask(handler, http.MethodHead, path); code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, code)
		}
	}
	for _, path := range []string{"/index.html", "/page", "/page/", "/page/page.html", "/favicon.ico", "/debug/"} {
		if code, _ := ask(handler, http.MethodGet, path); code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, code)
		}
	}
}

func TestPageFilesAreAskedForOnce(t *testing.T) {
	handler := Handler(pageMetrics(), nil)
	for path, contentType := range map[string]string{"/page.css": "text/css", "/page.js": "text/javascript", "/page.svg": "image/svg+xml"} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if !strings.HasPrefix(answer.Header().Get("Content-Type"), contentType) || answer.Body.Len() == 0 {
			t.Errorf("%s: %d bytes, %v", path, answer.Body.Len(), answer.Header())
		}
		again := httptest.NewRequest(http.MethodGet, path, nil)
		again.Header.Set("If-None-Match", answer.Header().Get("ETag"))
		answer = httptest.NewRecorder()
		handler.ServeHTTP(answer, again)
		if answer.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", path, answer.Code)
		}
	}
}

// TestPageIsSmall: it must load over a poor line in an incident.
func TestPageIsSmall(t *testing.T) {
	total := 0
	err := fs.WalkDir(pageFiles, ".", func(name string, _ fs.DirEntry, err error) error {
		body, _ := fs.ReadFile(pageFiles, name)
		total += len(body)
		return err
	})
	if err != nil || total == 0 || total > 40_000 {
		t.Errorf("the page's files have %d bytes (%v); 40,000 are allowed", total, err)
	}
}

// TestPageEscapes: names that clusters chose stay text wherever they appear.
func TestPageEscapes(t *testing.T) {
	const evil = "\"'></td><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x00{{.}}"
	m := metrics.New(metrics.Options{Version: evil, Status: func() metrics.Status {
		s := exampleStatus()
		c := &s.Clusters[0]
		c.Name, c.State, c.Reason, c.Version, c.LastError, c.Remarks = evil, evil, evil, evil, evil, []string{evil}
		c.Native = &metrics.NativeStatus{DifferingCount: 1, Differing: []metrics.NativeDifference{{Namespace: evil, Service: evil, Ours: []string{evil}, Theirs: []string{evil}}}}
		s.Version, s.Config.File, s.Config.Error, s.Ingress.State, s.Ingress.Version = evil, evil, evil, evil, evil
		s.Ingress.Up, s.Ingress.LastError, s.NotReady, s.Ready = false, evil, []string{evil}, false
		return s
	}})
	m.Report(evil, evil, metrics.Trouble{
		Conflicts: []metrics.Conflict{{Cluster: evil, Reason: evil, Message: evil}},
		Held:      []metrics.HeldChange{{Cluster: evil, Reason: evil, Message: evil, Release: evil}},
		Rejected:  []metrics.Rejection{{Cluster: evil, Reason: evil, Address: evil}},
	})
	rec := written()
	rec.Namespace, rec.Service, rec.Cluster, rec.Error, rec.Result = evil, evil, evil, evil, record.Result(evil)
	rec.Cause.Name, rec.Cause.State, rec.Cause.Event = evil, evil, evil
	rec.Added, rec.Removed = []string{evil}, []string{"javascript:alert(1)"}
	m.Change(rec)
	_, body := ask(Handler(m, nil), http.MethodGet, "/?service=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&ip=%22onfocus=x&%3Cb%3E=1")
	page := string(body)
	if bad := regexp.MustCompile(`<img|<b>1|<script[^>]*>[^<]|href="[^".#dpm]|"onfocus`).FindString(page); bad != "" {
		t.Errorf("a name became markup: %q", bad)
	}
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	if strings.ContainsAny(page, "\u202e\x00") {
		t.Error("a name keeps characters that hide or reverse text")
	}
}

// TestPageBoundsText: a name of megabytes does not make a page of megabytes.
func TestPageBoundsText(t *testing.T) {
	m := metrics.New(metrics.Options{Status: exampleStatus})
	long := strings.Repeat("ö", 1<<20)
	rec := written()
	rec.Service, rec.Error, rec.Cause.Name = long, long, long
	for i := range 5_000 {
		rec.Removed = append(rec.Removed, fmt.Sprintf("10.0.%d.%d:80", i/250, i%250))
	}
	m.Change(rec)
	for i := range 3 * maxPageTroubles {
		m.Report("shop", fmt.Sprint("svc-", i), metrics.Trouble{Conflicts: []metrics.Conflict{{Reason: "port", Message: long}}})
	}
	body := get(t, Handler(m, nil), "/")
	if len(body) > 100_000 {
		t.Errorf("%d bytes", len(body))
	}
	for _, want := range []string{"and 4\u202f997 more", "And 100 more; tributary status -o json lists the first 200."} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestDurationsForPeople(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00 ms", 254 * time.Microsecond: "0.25 ms", 2375 * time.Microsecond: "2.4 ms", 42 * time.Millisecond: "42 ms",
		2500 * time.Millisecond: "2.5 s", 42 * time.Second: "42 s", 5 * time.Minute: "5 min", 3 * time.Hour: "3 h", 72 * time.Hour: "3 days",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q; want %q", d, got, want)
		}
	}
	if got := ago(time.Time{}, noon); got != "never" {
		t.Errorf("ago(never) = %q", got)
	}
	if got := ago(noon.Add(time.Second), noon); got != "0 s ago" {
		t.Errorf("ago(future) = %q", got)
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q; want %q", n, got, want)
		}
	}
}

func TestStrip(t *testing.T) {
	clusters := []metrics.ClusterStatus{{Name: "idc-a"}, {Name: "idc-b"}, {Name: "idc-c"}}
	var records []*record.Change
	add := func(cluster, lane string, total time.Duration, live bool) {
		rec := written()
		rec.Cluster, rec.Lane, rec.Stages.Total, rec.Cause.Live = cluster, lane, total, live
		records = append(records, &rec)
	}
	for i := range 3 * stripSize {
		add("idc-a", "removal", time.Duration(i+1)*time.Millisecond, true)
	}
	add("idc-b", "addition", time.Microsecond, true)
	add("idc-b", "addition", time.Hour, true)
	add("idc-b", "bulk", time.Second, false)
	add("gone", "removal", time.Second, true)
	strips := newStrips(clusters, records)
	a, b, c := strips[0], strips[1], strips[2]
	if a.Count != stripSize || a.P50 != "300 ms" || a.P99 != "359 ms" || a.Max != "360 ms" {
		t.Errorf("idc-a: %d changes, p50 %s, p99 %s, max %s", a.Count, a.P50, a.P99, a.Max)
	}
	if n := strings.Count(a.Removals, "M"); n != stripSize || a.Others != "" {
		t.Errorf("idc-a: %d removals are drawn, and others %q", n, a.Others)
	}
	// Beyond the scale a dot sits on its edge; the text tells the truth.
	if b.Count != 2 || b.Others != "M313.0 8.0h0M310.8 96.0h0" || b.Max != "60 min" {
		t.Errorf("idc-b: %+v", b)
	}
	if c.Count != 0 || c.Label != "idc-c: no live change yet" {
		t.Errorf("idc-c: %+v", c)
	}
}

func BenchmarkPage(b *testing.B) {
	m := metrics.New(metrics.Options{Status: exampleStatus})
	for range 10_000 {
		m.Change(written())
	}
	handler := Handler(m, nil)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
}

// TestWhatIsDrainedMayBeAway: a planned drain is nothing to look at, the same without one is.
func TestWhatIsDrainedMayBeAway(t *testing.T) {
	s := exampleStatus()
	s.Clusters[1].Panic = false
	for _, drained := range []bool{true, false} {
		if !drained {
			s.Clusters[1].DrainSince = time.Time{}
		}
		said, tallied := judge(&s), tallies(&s)[0]
		if strings.Contains(said.Detail, "1 cluster is not live") == drained || strings.Contains(said.Detail, "1 cluster is stale") == drained || (tallied.Class == "bad") == drained || tallied.Value != "1 of 2" {
			t.Errorf("drained is %v: %+v, %+v", drained, said, tallied)
		}
		shown := string(get(t, Handler(metrics.New(metrics.Options{Status: func() metrics.Status { return s }}), nil), "/"))
		for _, loud := range []string{`<span class="badge bad">silent`, `<span class="badge warn">stale`, `<span class="bad">Last error`} {
			if strings.Contains(shown, loud) == drained {
				t.Errorf("drained is %v: the page has %s: %v", drained, loud, !drained)
			}
		}
	}
	s = metrics.Status{Ready: true, Clusters: []metrics.ClusterStatus{{State: "silent", DrainSince: noon}}}
	if said := judge(&s); said.Class != "ok" || !strings.Contains(said.Detail, "live or drained") {
		t.Errorf("%+v", said)
	}
}
