// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/syncer"
)

// TestWhatIsNotThere is an error that names what is; what is there and did nothing is none.
func TestWhatIsNotThere(t *testing.T) {
	web, quiet := syncer.Key{Namespace: "shop", Name: "web"}, syncer.Key{Namespace: "shop", Name: "quiet"}
	explain := func(key syncer.Key) app.Explanation {
		out := explained(key)
		if key != web && key != quiet {
			out.Stands, out.Conflicts, out.Held = reconcile.Stands{Service: "none"}, nil, nil
			for i := range out.Members {
				out.Members[i].Services = nil
			}
		}
		return out
	}
	m := metrics.New(metrics.Options{Status: troubledStatus})
	m.Report("shop", "web", metrics.Trouble{Orphans: []metrics.OrphanStatus{{Cluster: "idc-old", Endpoints: 1}}})
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(m, nil))
	mux.Handle("GET "+app.ExplainPath, app.ExplainHandler(explain, func() []syncer.Key { return []syncer.Key{{Namespace: "pay", Name: "api"}, quiet, web} }))
	server := httptest.NewServer(mux)
	defer server.Close()
	const noService = `Service "shop/nosuch" not found: no member that was read has it, and nothing of that name stands in the ingress cluster; in namespace shop there are shop/quiet, shop/web`
	const noMember = `member "nosuch" not found; there are idc-a, idc-b, idc-old`
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"explain", "shop/nosuch"}, exitFailed, noService},
		{[]string{"explain", "shop/nosuch", "-o", "json"}, exitFailed, noService},
		{[]string{"explain", "none/nosuch"}, exitFailed, "in namespace none there is none"},
		{[]string{"explain", "shop/web"}, exitOK, ""},
		{[]string{"explain", "shop/web", "--cluster", "nosuch"}, exitFailed, noMember},
		{[]string{"explain", "shop/web", "--cluster", "idc-old"}, exitOK, ""},
		{[]string{"status", "--service", "shop/nosuch"}, exitFailed, noService},
		{[]string{"status", "--service", "shop/web"}, exitOK, ""},
		{[]string{"status", "--cluster", "nosuch"}, exitFailed, noMember},
		{[]string{"status", "--cluster", "idc-old"}, exitOK, "Orphans"},
		{[]string{"status", "--cluster", "idc-a"}, exitOK, ""},
		{[]string{"trace", "--service", "shop/nosuch"}, exitFailed, noService},
		{[]string{"trace", "--cluster", "nosuch"}, exitFailed, noMember},
		{[]string{"trace", "--service", "shop/quiet", "--cluster", "idc-b"}, exitOK, "No such change is remembered."},
	} {
		var out bytes.Buffer
		code := dispatch(t.Context(), append(test.args, "--server", server.URL), &out, &out)
		if code != test.code || !strings.Contains(out.String(), test.says) {
			t.Errorf("%q: exit %d, want %d and %q\n%s", test.args, code, test.code, test.says, &out)
		}
	}
}
