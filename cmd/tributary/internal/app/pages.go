// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// server is one address at which pages are served.
type server struct {
	listener net.Listener
	handler  http.Handler
}

// pages are the servers of a process: one for everything, and one for what others may see.
type pages struct {
	servers []server
	logger  *slog.Logger
}

// listen binds the addresses that the configuration names, all or none.
func listen(c *config.Config, m *metrics.Metrics, everything http.Handler, logger *slog.Logger) (*pages, error) {
	p := &pages{logger: logger}
	for _, site := range []struct {
		field, address string
		handler        http.Handler
	}{{"listen", c.Listen, everything}, {"metricsListen", c.MetricsListen, page.Plain(m, logger)}} {
		if site.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", site.address)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("%s: cannot serve at %q: %w; free the address or choose another", site.field, site.address, err)
		}
		logger.Info("serving", "field", site.field, "listen", listener.Addr().String())
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
			site.handler = localOnly(site.handler)
		}
		p.servers = append(p.servers, server{listener, site.handler})
	}
	return p, nil
}

func (p *pages) close() {
	for _, s := range p.servers {
		s.listener.Close()
	}
}

// address is where everything is served.
func (p *pages) address() string { return p.servers[0].listener.Addr().String() }

// run serves until ctx is done, and returns when nothing is served any more.
func (p *pages) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, s := range p.servers {
		running.Go(func() {
			if err := page.Serve(ctx, s.listener, s.handler, p.logger); err != nil && ctx.Err() == nil {
				p.logger.Error("serving the pages failed", "error", err)
			}
		})
	}
	running.Wait()
}

// localOnly refuses requests that name another host than this machine. The address is
// for people and programs here; a page in a browser may have made a name of its own lead
// here, to read what it answers.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			http.Error(w, "this address is served to this machine alone: ask for it as localhost or 127.0.0.1", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local reports whether the Host of a request is this machine's loopback.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
