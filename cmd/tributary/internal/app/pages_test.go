// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// A name that a browser was made to resolve to this machine opens nothing.
func TestLocalNames(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:9440": true, "localhost:9440": true, "LOCALHOST": true, "[::1]:9440": true, "127.8.8.8": true, "a.localhost.:1": true, "[::ffff:127.0.0.1]:1": true,
		"evil.example:9440": false, "10.0.0.1:9440": false, "localhost.evil.example": false, "": false, "127.0.0.1.evil.example": false, "0.0.0.0:9440": false,
	} {
		if got := local(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
	}
}

// The pages move to an address that overlaps the one they have, and back; on loopback
// they ask who is meant.
func TestPagesMoveToAnOverlappingAddress(t *testing.T) {
	var moved []string
	p := &pages{ctx: t.Context(), logger: slog.New(slog.DiscardHandler), moved: func(address string) { moved = append(moved, address) },
		handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") })}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	p.serve(listener)
	defer p.wait()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(host string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if status("evil.example") != http.StatusForbidden || status("localhost:"+port) != http.StatusOK {
		t.Error("the host is not looked at on loopback")
	}
	p.move(":" + port)
	if len(moved) != 1 || status("pod.example") != http.StatusOK {
		t.Errorf("moved to %q", moved)
	}
	p.move("256.0.0.1:" + port) // cannot be: it stays where it is
	if len(moved) != 1 || status("pod.example") != http.StatusOK {
		t.Errorf("moved to %q", moved)
	}
	p.move("127.0.0.1:" + port)
	if len(moved) != 2 || status("evil.example") != http.StatusForbidden {
		t.Errorf("moved to %q", moved)
	}
}
