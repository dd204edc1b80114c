// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics/page"
)

// hereTimeout is how long whoever holds an address of this machine may take to say who it is.
const hereTimeout = 3 * time.Second

// askHere says why run could not serve its pages from this machine. An address that a
// running tributary holds is as it should be: that one would make room.
func askHere(ctx context.Context, c *config.Config) error {
	err := app.Bindable(c)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	for _, address := range []string{c.Listen, c.MetricsListen} {
		if address != "" && inUse(ctx, address) && !answersAsWe(ctx, address) {
			return err
		}
	}
	return nil
}

func inUse(ctx context.Context, address string) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		listener.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
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
