// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/syncer"
)

// releasing serves the pages of an instance with one member, "idc-a", and one sink, "slb",
// and notes what is asked for.
func releasing(t *testing.T) (server *httptest.Server, asked *[]string) {
	asked = new([]string)
	pages := http.NewServeMux()
	pages.Handle("/", page.Handler(metrics.New(metrics.Options{Status: func() metrics.Status {
		return metrics.Status{Clusters: []metrics.ClusterStatus{{Name: "idc-a"}, {Name: "idc-b"}}, Sinks: []metrics.SinkStatus{{Name: "slb"}, {Name: "standby"}},
			Held: []metrics.HeldChange{{Cluster: "idc-a", Namespace: "shop", Service: "pay", Reason: "drain_last_ready"}, {Cluster: "idc-b", Namespace: "shop", Service: "web", Reason: "repair_fight"}}}
	}}), nil))
	pages.Handle("POST "+app.ReleasePath, app.ReleaseHandler(func(cluster string, replica *syncer.Key) (clusters.Released, bool) {
		if cluster != "idc-a" {
			return clusters.Released{}, false
		}
		if replica == nil {
			*asked = append(*asked, "all")
			return clusters.Released{Pods: 3, NotReady: 2, Standing: 4}, true
		}
		*asked = append(*asked, replica.String())
		return clusters.Released{}, true
	}))
	pages.Handle("POST "+app.ResyncPath, app.ResyncHandler(func(sink string) (int, bool) {
		*asked = append(*asked, "resync "+sink)
		return 7, sink == "" || sink == "slb"
	}))
	server = httptest.NewServer(pages)
	t.Cleanup(server.Close)
	return server, asked
}

func TestRelease(t *testing.T) {
	server, asked := releasing(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--cluster", "idc-a"}, exitOK, "released: 3 pods that lists lack, 4 endpoints that stood before the start, 2 pods that are not ready\n"},
		{[]string{"--cluster", "idc-a", "--service", "shop/web"}, exitOK, "nothing was held\n"},
		{[]string{"--cluster", "idc-a", "--service", "shop/pay"}, exitOK, "nothing that a release lets pass; held still: drain_last_ready shop/pay; \"tributary status\" says what each waits for\n"},
		{[]string{"--cluster", "idc-b"}, exitFailed, "tributary release: nothing is held of cluster \"idc-b\", for it is not followed\n"},
		{[]string{"--cluster", "idc-z"}, exitFailed, "tributary release: member \"idc-z\" not found; there are idc-a, idc-b\n"},
		{[]string{"--cluster", "idc-a", "--service", "web"}, exitUsage, "tributary release: --service: \"web\" is not NAMESPACE/NAME\n"},
		{nil, exitUsage, "tributary release: --cluster is missing; \"tributary status\" shows what is held, and for which member\n"},
	} {
		var out, errs bytes.Buffer
		code := dispatch(t.Context(), append([]string{"release", "--server", server.URL}, c.args...), &out, &errs)
		if got := out.String() + errs.String(); code != c.code || got != c.want {
			t.Errorf("%q: %d %q, want %d %q", c.args, code, got, c.code, c.want)
		}
	}
	if want := []string{"all", "shop/web", "shop/pay"}; !slices.Equal(*asked, want) {
		t.Errorf("released %q, want %q", *asked, want)
	}
}

func TestResync(t *testing.T) {
	server, asked := releasing(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitOK, "7 Services are told anew\n"},
		{[]string{"--sink", "slb"}, exitOK, "7 Services are told anew\n"},
		{[]string{"--sink", "standby"}, exitFailed, "tributary resync: this process does not tell sink \"standby\"; ask the one that leads\n"},
		{[]string{"--sink", "nobody"}, exitFailed, "tributary resync: sink \"nobody\" not found; there are slb, standby\n"},
	} {
		var out, errs bytes.Buffer
		code := dispatch(t.Context(), append([]string{"resync", "--server", server.URL}, c.args...), &out, &errs)
		if got := out.String() + errs.String(); code != c.code || got != c.want {
			t.Errorf("%q: %d %q, want %d %q", c.args, code, got, c.code, c.want)
		}
	}
	if want := []string{"resync ", "resync slb", "resync standby", "resync nobody"}; !slices.Equal(*asked, want) {
		t.Errorf("asked for %q, want %q", *asked, want)
	}
}

func TestOnlyOperatorsMayRelease(t *testing.T) { onlyOperators(t, app.ReleasePath+"?cluster=idc-a") }
func TestOnlyOperatorsMayResync(t *testing.T)  { onlyOperators(t, app.ResyncPath) }

func onlyOperators(t *testing.T, path string) {
	server, asked := releasing(t)
	target := server.URL + path
	for name, header := range map[string]http.Header{
		"a form of another site": {},
		"a script of a site":     {app.OperatorHeader: {"1"}, "Origin": {"http://127.0.0.1:9440"}},
		"a browser without one":  {app.OperatorHeader: {"1"}, "Sec-Fetch-Site": {"same-origin"}},
	} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, target, nil)
		request.Header = header
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", name, answer.Status)
		}
	}
	for _, remote := range []string{"10.0.0.7:1234", "[fd00::1]:1234", "nonsense"} {
		request := httptest.NewRequest(http.MethodPost, target, nil)
		request.RemoteAddr = remote
		request.Header.Set(app.OperatorHeader, "1")
		answer := httptest.NewRecorder()
		server.Config.Handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusForbidden {
			t.Errorf("from %s: %d", remote, answer.Code)
		}
	}
	answer, err := server.Client().Get(target)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode == http.StatusOK || len(*asked) != 0 {
		t.Errorf("GET: %s; released %q", answer.Status, *asked)
	}
	if answer, err := server.Client().Get(server.URL + "/healthz"); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the pages are gone: %v", err)
	} else {
		answer.Body.Close()
	}
}
