// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics/page"
)

// hereTimeout is how long whoever holds an address of this machine may take to say who it is.
const hereTimeout = 3 * time.Second

// askHere says why run could not serve its pages from this machine, and by which field of
// the configuration: it listens where run would, and lets go. An address that a running
// tributary holds is as it should be: that one would make room.
func askHere(ctx context.Context, c *config.Config) (field string, err error) {
	for _, site := range []struct{ field, address string }{{"listen", c.Listen}, {"metricsListen", c.MetricsListen}} {
		if site.address == "" {
			continue
		}
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", site.address)
		if err == nil {
			defer listener.Close() // at the end: two fields may not name the same
			continue
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !answersAsWe(ctx, site.address) {
			return site.field, fmt.Errorf("cannot serve at %q: %w; free the address or choose another", site.address, err)
		}
	}
	return "", nil
}

// answersAsWe reports whether a tributary serves at an address.
func answersAsWe(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, hereTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	// Only who answers is asked, and nothing told: any certificate will do.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	for _, scheme := range []string{"http", "https"} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/healthz", nil)
		if err != nil {
			return false
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.Header.Get("Server") == page.Server {
			return true
		}
	}
	return false
}
