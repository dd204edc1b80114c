// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// TestAskHere: an address that is taken keeps run from working, unless a tributary has it.
func TestAskHere(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	busy := taken.Addr().String()
	defer taken.Close()
	go func() { // it takes connections and says nothing that makes sense
		for {
			connection, err := taken.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
	ours := httptest.NewServer(page.Handler(metrics.New(metrics.Options{}), nil))
	defer ours.Close()
	byTLS := httptest.NewTLSServer(page.Handler(metrics.New(metrics.Options{}), nil))
	defer byTLS.Close()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	const free = "127.0.0.1:0"
	for _, c := range []struct {
		name, listen, metrics string
		want                  bool
	}{
		{"free", free, free, true},
		{"no metricsListen", free, "", true},
		{"taken", busy, "", false},
		{"taken by another server", other.Listener.Addr().String(), "", false},
		{"taken for metrics", free, busy, false},
		{"a tributary runs here", ours.Listener.Addr().String(), byTLS.Listener.Addr().String(), true},
		{"one does, the other address is taken", ours.Listener.Addr().String(), busy, false},
		{"not an address of this machine", "192.0.2.1:9440", "", false},
		{"no such name", "nowhere.invalid:9440", "", false},
	} {
		if _, err := askHere(t.Context(), &config.Config{Listen: c.listen, MetricsListen: c.metrics}); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRefuseOthers: a member at whose address another cluster answers than is recorded would be suspected by run.
func TestRefuseOthers(t *testing.T) {
	results := []checked{
		{Role: roleIngress, known: map[string]string{"same": "1", "other": "2", "silent": "3"}},
		{Cluster: "same", Result: resultOK, identity: "1"}, {Cluster: "other", Result: resultOK, identity: "9"},
		{Cluster: "silent", Result: resultOK}, {Cluster: "new", Result: resultOK, identity: "5"},
	}
	refuseOthers(results)
	for _, r := range results[1:] {
		if failed := r.Cluster == "other"; (len(r.Problems) > 0) != failed || (r.Result == resultFailed) != failed {
			t.Errorf("%s: %s %q", r.Cluster, r.Result, r.Problems)
		}
	}
}
