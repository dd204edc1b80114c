// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"

	"tributary.dev/tributary/metrics"
)

// pages serves the HTTP pages and moves them when `listen` is edited.
type pages struct {
	ctx     context.Context
	handler http.Handler
	logger  *slog.Logger
	// moved is told the address of each new server.
	moved   func(address string)
	running sync.WaitGroup
	// address is that of the server in use, and stop ends it; only the goroutine of the
	// configuration's watcher calls move.
	address string
	stop    context.CancelFunc
}

func newPages(ctx context.Context, r *App, logger *slog.Logger) *pages {
	served := http.NewServeMux()
	served.Handle("/", Handler(r.metrics.Handler(), r.set.Release))
	served.Handle("GET "+ExplainPath, ExplainHandler(r.explain))
	return &pages{ctx: ctx, handler: served, logger: logger, moved: r.moved}
}

func (p *pages) serve(listener net.Listener) {
	ctx, stop := context.WithCancel(p.ctx)
	p.stop, p.address = stop, listener.Addr().String()
	handler := p.handler
	if onLoopback(listener.Addr()) {
		handler = localOnly(handler)
	}
	p.running.Go(func() {
		if err := metrics.Serve(ctx, listener, handler, p.logger); err != nil && ctx.Err() == nil {
			p.logger.Error("serving the pages failed", "listen", listener.Addr().String(), "error", err)
		}
	})
}

// move serves at another address. The new one is bound before the old one is let go,
// unless the two overlap, such as 127.0.0.1:9440 and :9440.
func (p *pages) move(address string) {
	former := p.address
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) && samePort(former, address) {
		p.wait()
		if listener, err = net.Listen("tcp", address); err != nil {
			p.back(former)
		}
	}
	if err != nil {
		p.logger.Error("cannot serve at the new address, the former one stays", "listen", address, "error", err)
		return
	}
	p.stop()
	p.serve(listener)
	p.moved(p.address)
	p.logger.Info("serving at a new address", "listen", p.address)
}

// back serves where it did before.
func (p *pages) back(former string) {
	listener, err := net.Listen("tcp", former)
	if err != nil {
		p.logger.Error("the pages are served nowhere: edit listen", "listen", former, "error", err)
		return
	}
	p.serve(listener)
}

func (p *pages) wait() {
	p.stop()
	p.running.Wait()
}

func samePort(a, b string) bool {
	_, first, err := net.SplitHostPort(a)
	_, second, also := net.SplitHostPort(b)
	return err == nil && also == nil && first == second
}

func onLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
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
