// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"tributary.dev/tributary/e2e/cluster"
	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/fleet/fleettest"
)

// stubEnv makes this test binary a stand-in for tributary that listens there.
const stubEnv = "E2E_FLEET_STUB"

func TestMain(m *testing.M) {
	if listen := os.Getenv(stubEnv); listen != "" {
		beTributary(listen)
	}
	os.Exit(m.Run())
}

// beTributary answers /readyz from the third time on and ends at SIGTERM.
func beTributary(listen string) {
	if len(os.Args) < 4 || os.Args[1] != "run" || os.Args[2] != "--config" {
		fmt.Println("unexpected arguments:", os.Args)
		os.Exit(2)
	}
	var asked atomic.Int32
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "not synced", http.StatusServiceUnavailable)
		}
	})
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	go func() { fmt.Println(http.ListenAndServe(listen, nil)) }()
	fmt.Println("stub started")
	<-ctx.Done()
	os.Exit(0)
}

func mustAddr(t *testing.T, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	must(t, err)
	return a
}

// TestTributaryProcess tries the handling of the process on a stand-in for it.
func TestTributaryProcess(t *testing.T) {
	port, err := cluster.FreePort()
	must(t, err)
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	config := filepath.Join(t.TempDir(), "tributary.yaml")
	must(t, (&fleet.Fleet{Ingress: &fleet.Site{}}).WriteConfig(config, listen))
	self, err := os.Executable()
	must(t, err)
	p := fleettest.RunTributary(t, fleet.TributaryOptions{Binary: self, Config: config, Env: []string{stubEnv + "=" + listen}})
	must(t, p.WaitReady(t.Context()))
	if p.URL != "http://"+listen {
		t.Errorf("URL %s, want that of the configuration", p.URL)
	}
	if _, err := p.Get(t.Context(), "/nothing"); err == nil {
		t.Error("a 404 is no error")
	}
	must(t, p.Stop(t.Context()))
	must(t, p.Start(t.Context()))
	must(t, p.WaitReady(t.Context()))
	p.Kill()
	if p.Running() || p.ExitErr() == nil {
		t.Errorf("after a kill: running %t, %v", p.Running(), p.ExitErr())
	}
	if err := p.WaitReady(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("waiting for a process that has ended: %v", err)
	}
	if n := strings.Count(p.Tail(10), "stub started"); n != 2 {
		t.Errorf("the log has %d starts, want 2:\n%s", n, p.Tail(10))
	}
}
