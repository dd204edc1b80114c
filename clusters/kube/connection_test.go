// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/internal/memnet"
)

// connected runs a script with a connection to a fake server in virtual time.
func connected(t *testing.T, o ConnectOptions, script func(t *testing.T, f *apiServer, c *Connection)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newAPIServer("uid-a")
		defer f.close()
		c, err := Connect(f.config("secret"), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		script(t, f, c)
	})
}

func TestFrozenConnectionEndsItsStreams(t *testing.T) {
	connected(t, ConnectOptions{}, func(t *testing.T, f *apiServer, c *Connection) {
		source := REST(c.client(Pods), Pods)
		stream, err := source.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "100"})
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Stop()
		time.Sleep(time.Hour) // quiet, but alive
		select {
		case <-stream.Events():
			t.Fatalf("a quiet stream ended: %v", stream.Err())
		default:
		}
		f.listener.Freeze()
		frozen := time.Now()
		if _, open := <-stream.Events(); open {
			t.Fatal("an event came")
		}
		if took := time.Since(frozen); stream.Err() == nil || took > pingAfter+pingTimeout {
			t.Errorf("noticed after %v, as %v", took, stream.Err())
		}
	})
}

func TestRequestsWithoutDeadlineGetOne(t *testing.T) {
	connected(t, ConnectOptions{}, func(t *testing.T, f *apiServer, c *Connection) {
		f.setHook(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done() // the connection lives, the answer does not come
			return true
		})
		start := time.Now()
		_, err := c.Clientset().CoreV1().Pods("").List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		if took := time.Since(start); err == nil || took != requestTimeout {
			t.Errorf("gave up after %v with %v, want %v", took, err, requestTimeout)
		}
	})
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]ServerVersion{
		"v1.17.9":          {"v1.17.9", 1, 17},
		"v1.36.3-gke.1200": {"v1.36.3-gke.1200", 1, 36},
	} {
		connected(t, ConnectOptions{}, func(t *testing.T, f *apiServer, c *Connection) {
			f.version = version
			got, err := c.Version(t.Context())
			if err != nil || got != want {
				t.Errorf("version %+v (%v), want %+v", got, err, want)
			}
		})
	}
	v := ServerVersion{Major: 1, Minor: 21}
	for _, tc := range []struct {
		major, minor int
		want         bool
	}{{1, 21, true}, {1, 22, false}, {0, 99, true}, {2, 0, false}} {
		if got := v.AtLeast(tc.major, tc.minor); got != tc.want {
			t.Errorf("1.21 at least %d.%d: %v", tc.major, tc.minor, got)
		}
	}
	for _, text := range []string{"<html>", "{}", `{"major":1}`, ""} {
		connected(t, ConnectOptions{}, func(t *testing.T, f *apiServer, c *Connection) {
			f.hook = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = io.WriteString(w, text); return true }
			if v, err := c.Version(t.Context()); err == nil && v != (ServerVersion{}) {
				t.Errorf("%q is version %+v", text, v)
			}
		})
	}
}

func TestWarningsAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	connected(t, ConnectOptions{Logger: log}, func(t *testing.T, f *apiServer, c *Connection) {
		n := 0
		f.hook = func(w http.ResponseWriter, _ *http.Request) bool {
			n++
			w.Header().Add("Warning", `299 - "v1 Elsewhere is deprecated"`)
			w.Header().Add("Warning", fmt.Sprintf(`299 - "number %d"`, n))
			return false
		}
		for range 3 * warningsKept {
			if _, err := c.Clientset().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if got := strings.Count(out.String(), "deprecated"); got != 1 {
		t.Errorf("said %d times", got)
	}
	if got := strings.Count(out.String(), "\n"); got != warningsKept {
		t.Errorf("%d lines, want no more than %d", got, warningsKept)
	}
}

func TestRequestsSayWhoAsks(t *testing.T) {
	connected(t, ConnectOptions{Version: "v0.1.0"}, func(t *testing.T, f *apiServer, c *Connection) {
		var agent, accept string
		f.hook = func(_ http.ResponseWriter, r *http.Request) bool {
			agent, accept = r.UserAgent(), r.Header.Get("Accept")
			return false
		}
		if _, err := c.Identity(t.Context()); err != nil {
			t.Fatal(err)
		}
		if agent != "tributary/v0.1.0" || !strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") {
			t.Errorf("agent %q accepts %q", agent, accept)
		}
	})
}

func TestNoClientSideLimitByDefault(t *testing.T) {
	count := func(qps float32, burst int) time.Duration {
		var took time.Duration
		synctest.Test(t, func(t *testing.T) {
			f := newAPIServer("uid-a")
			defer f.close()
			cfg := f.config("")
			cfg.QPS, cfg.Burst = qps, burst
			c, err := Connect(cfg, ConnectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			start := time.Now()
			for range 50 {
				if _, err := c.Identity(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			took = time.Since(start)
		})
		return took
	}
	if took := count(0, 0); took != 0 {
		t.Errorf("50 requests without a limit took %v", took)
	}
	if took := count(10, 10); took != 4*time.Second {
		t.Errorf("50 requests at 10 a second, 10 at once, took %v", took)
	}
}

// A credential plugin that hangs keeps no request beyond its time, nor more than so many.
func TestHangingPluginKeepsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := make(chan struct{})
		var waiting atomic.Int64
		rt := newDetached(roundTrip(func(*http.Request) (*http.Response, error) {
			waiting.Add(1)
			<-plugin // as client-go's exec authenticator
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), probeTimeout)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://member.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rt.RoundTrip(req)
			return err
		}
		for range 2 * pluginRequests {
			start := time.Now()
			if err := ask(); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != probeTimeout {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
		}
		if n := waiting.Load(); n != pluginRequests {
			t.Errorf("%d requests wait for the plugin", n)
		}
		close(plugin)
		synctest.Wait()
		if err := ask(); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsHoldNoSecret(t *testing.T) {
	connected(t, ConnectOptions{Cluster: "a"}, func(t *testing.T, f *apiServer, c *Connection) {
		f.listener.Lead(memnet.Nobody)
		_, err := c.Version(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "cluster a") {
			t.Errorf("error %v", err)
		}
	})
}
