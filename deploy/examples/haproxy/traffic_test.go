// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build haproxy

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/reconcile/sinks/state"
	"tributary.dev/tributary/syncer"
)

const podPort = 18081

// pod is a program that serves, at an address of the loopback of its own.
type pod struct {
	address     string
	server      *http.Server
	ready, gone bool
}

// site is a Service with its pods, told to a sink.
type site struct {
	t    *testing.T
	set  *sinks.Set
	pods []*pod
}

func (s *site) start(n int) *pod {
	s.t.Helper()
	p := &pod{address: fmt.Sprintf("127.0.7.%d", n)}
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", p.address, podPort))
	if err != nil {
		s.t.Fatal(err)
	}
	p.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond) // there is always something in flight
		_, _ = io.WriteString(w, p.address)
	})}
	go func() { _ = p.server.Serve(listener) }()
	s.pods = append(s.pods, p)
	return p
}

// tell says what the Service is, as the reconciler does.
func (s *site) tell() {
	key := syncer.Key{Namespace: "shop", Name: "web"}
	c := plan.Contribution{Cluster: "idc-a", Source: key, Contribution: syncer.Contribution{Service: &syncer.Service{Key: key}}}
	for _, p := range s.pods {
		if !p.gone {
			c.Endpoints = append(c.Endpoints, syncer.Endpoint{Addr: netip.MustParseAddr(p.address), Ready: p.ready, Serving: true, Terminating: !p.ready,
				Ports: []syncer.Port{{Name: "http", Protocol: syncer.TCP, Number: podPort}}})
		}
	}
	replica := plan.Merge(key, []plan.Contribution{c}, plan.Current{}, plan.Settings{WriteSlices: true, MaxEndpointsPerSlice: 100})
	s.set.Tell(key, &replica)
}

// TestRollOut replaces ten pods one by one under traffic. Each ends as a pod does that has a
// preStop of two seconds: it is told to be not ready, serves on, and closes when what it has
// is answered. No request fails.
func TestRollOut(t *testing.T) {
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal("no HAProxy in the PATH; install it (Debian: apt-get install haproxy): ", err)
	}
	front := start(t, binary)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	receiver := newReceiver(runtimeSocket(front.socket), "http", 10*time.Second)
	group.Go(func() { receiver.keep(ctx) })
	in := httptest.NewServer(handler(receiver, ""))
	defer in.Close()
	s := &site{t: t, set: sinks.New(sinks.Options{Instance: "default"})}
	s.set.Configure([]sinks.Spec{{
		Name: "haproxy", URL: in.URL, Config: "x", Changes: 200 * time.Millisecond, Rate: 20, MaxServices: 10, Timeout: 5 * time.Second,
		Selects: func(syncer.Key, map[string]string) bool { return true },
	}})
	group.Go(func() {
		s.set.Run(ctx, sinks.Term{
			Where: state.Where{Client: fake.NewClientset(), Namespace: "own", Instance: "default"},
			Hold:  func(ctx context.Context) (context.Context, func(), bool) { return ctx, func() {}, true },
			Look:  func(syncer.Key) {},
		})
	})
	for n := 1; n <= 10; n++ {
		s.start(n).ready = true
	}
	s.tell()
	front.await(t)

	traffic := drive(ctx, &group, front.url)
	for n := 1; n <= 10; n++ {
		s.start(10 + n).ready = true
		s.tell()
		time.Sleep(300 * time.Millisecond)
		old := s.pods[n-1]
		old.ready = false
		s.tell()
		group.Go(func() {
			time.Sleep(2 * time.Second)
			_ = old.server.Shutdown(context.WithoutCancel(ctx))
		})
		time.Sleep(200 * time.Millisecond)
	}
	time.Sleep(3 * time.Second)
	for _, p := range s.pods[:10] {
		p.gone = true
	}
	s.tell()
	time.Sleep(3 * time.Second)
	cancel()
	group.Wait()
	traffic.judge(t)
	servers, err := receiver.servers("shop_web")
	if err != nil || len(servers) != 10 {
		t.Errorf("%d servers stand: %v, %v", len(servers), servers, err)
	}
	for _, p := range s.pods[10:] {
		_ = p.server.Close()
	}
}

// front is a running HAProxy.
type front struct{ url, socket string }

func start(t *testing.T, binary string) front {
	t.Helper()
	dir, err := os.MkdirTemp("", "haproxy") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	text, err := os.ReadFile("haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	f := front{url: "http://" + address, socket: filepath.Join(dir, "admin.sock")}
	config := strings.NewReplacer("/run/haproxy/admin.sock", f.socket, "bind :80", "bind "+address).Replace(string(text))
	path := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-db", "-f", path)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return f
}

// await waits until a request is answered.
func (f front) await(t *testing.T) {
	t.Helper()
	for range 200 {
		if resp, err := http.Get(f.url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("HAProxy serves nobody")
}

// traffic is what became of requests.
type traffic struct {
	answered atomic.Int64
	mu       sync.Mutex
	by       map[string]int
	failed   []string
}

// drive sends requests from eight clients until ctx is done.
func drive(ctx context.Context, group *sync.WaitGroup, url string) *traffic {
	out := &traffic{by: map[string]int{}}
	for range 8 {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				out.one(client, url)
			}
		})
	}
	return out
}

func (o *traffic) one(client *http.Client, url string) {
	resp, err := client.Get(url)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || resp.StatusCode != http.StatusOK {
		o.failed = append(o.failed, fmt.Sprint(time.Now().Format(time.StampMilli), " ", err, " ", string(body)))
		return
	}
	o.answered.Add(1)
	o.by[string(body)]++
}

func (o *traffic) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d requests answered by %d pods, %d failed", o.answered.Load(), len(o.by), len(o.failed))
	if len(o.failed) > 0 {
		t.Errorf("%d requests failed: %q", len(o.failed), o.failed[:min(3, len(o.failed))])
	}
	if len(o.by) != 20 || o.answered.Load() < 500 {
		t.Errorf("%d requests, answered by %v", o.answered.Load(), o.by)
	}
}
