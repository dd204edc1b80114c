// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/review"
	"tributary.dev/tributary/metrics/page"
)

// The servers: everything, and metrics and probes alone.
const (
	everything = iota
	metricsAlone
	servers
)

// site is what one server was configured with; without an address there is none.
type site struct {
	address     string
	tls, review bool
}

// server is what serves a site.
type server struct {
	site
	listener net.Listener
	stop     context.CancelFunc
	done     chan struct{}
}

// pages serves the HTTP pages where the configuration says, and follows it. After newPages
// all but wait is for the goroutine of the configuration's watcher.
type pages struct {
	ctx      context.Context
	handler  http.Handler
	reviewer *review.Reviewer
	logger   *slog.Logger
	// moved is told each new address of the server of everything.
	moved   func(address string)
	servers [servers]*server
	running sync.WaitGroup
	// certificate is that of the server of metrics; refused why a newer one is not used.
	certificate atomic.Pointer[tls.Certificate]
	refused     string
}

func newPages(ctx context.Context, r *App, logger *slog.Logger) *pages {
	served := http.NewServeMux()
	served.Handle("/", page.Handler(r.metrics, r.logger))
	served.Handle("POST "+ReleasePath, ReleaseHandler(r.set.Release))
	served.Handle("GET "+ExplainPath, ExplainHandler(r.explain, r.set.Replicas))
	served.Handle("POST "+ResyncPath, ResyncHandler(r.sinks.Resync))
	return &pages{ctx: ctx, handler: served, reviewer: review.New(r.build.Version, logger), logger: logger, moved: r.moved}
}

// sites are those of a configuration.
func sites(c *config.Config) [servers]site {
	out := [servers]site{everything: {address: c.Listen}}
	if c.MetricsListen != "" {
		out[metricsAlone] = site{address: c.MetricsListen, tls: c.MetricsTLS.CertFile != "", review: c.MetricsTokenReview}
	}
	return out
}

// use serves as a configuration says. Where that cannot be, it serves as before.
func (p *pages) use(loaded *config.Loaded) error {
	p.certificate.Store(loaded.Metrics.TLS)
	if c := &loaded.Config; c.MetricsTokenReview {
		p.reviewer.Use(loaded.Ingress)
	}
	return p.exchange(sites(&loaded.Config))
}

// follow is use for a configuration that was edited.
func (p *pages) follow(loaded *config.Loaded) {
	refused := ""
	if err := loaded.Metrics.Err; err != nil {
		refused = err.Error()
	}
	if refused != "" && refused != p.refused {
		p.logger.Error("certificate of metricsListen refused, the former one stays", "error", refused)
	}
	p.refused = refused
	if loaded.Metrics.TLS == nil && refused != "" {
		return // there is nothing yet to serve it with
	}
	if err := p.use(loaded); err != nil {
		p.logger.Error("cannot serve at the new address, the former one stays", "error", err)
	}
}

// exchange serves the sites next. New addresses are bound before former ones are let go,
// unless they overlap, such as 127.0.0.1:9440 and :9440. It is all or nothing.
func (p *pages) exchange(next [servers]site) error {
	bound, err := p.bind(next)
	if errors.Is(err, syscall.EADDRINUSE) && p.overlaps(next) {
		former := p.servers
		p.letGo(next)
		if bound, err = p.bind(next); err != nil {
			var before [servers]site
			for i, s := range former {
				if s != nil {
					before[i] = s.site
				}
			}
			back, lost := p.bind(before)
			p.start(before, back)
			return errors.Join(err, lost)
		}
	}
	if err != nil {
		return err
	}
	p.start(next, bound)
	return nil
}

// bind listens at the addresses of sites that are not served yet: at all, or at none.
func (p *pages) bind(next [servers]site) (bound [servers]net.Listener, err error) {
	for i, field := range [servers]string{"listen", "metricsListen"} {
		if next[i].address == "" || p.site(i) == next[i] {
			continue
		}
		if bound[i], err = net.Listen("tcp", next[i].address); err != nil {
			for _, listener := range bound {
				if listener != nil {
					listener.Close()
				}
			}
			return [servers]net.Listener{}, fmt.Errorf("%s: cannot serve at %q: %w; free the address or choose another", field, next[i].address, err)
		}
	}
	return bound, nil
}

// start serves at what was bound for the sites next, and ends what is not among them.
func (p *pages) start(next [servers]site, bound [servers]net.Listener) {
	for i, listener := range bound {
		if former := p.servers[i]; former != nil && former.site != next[i] {
			former.stop()
			p.servers[i] = nil
		}
		if listener == nil {
			continue
		}
		p.servers[i] = p.serve(i, next[i], listener)
		if i == everything {
			p.moved(listener.Addr().String())
		}
		p.logger.Info("serving", "listen", listener.Addr().String(), "metricsAlone", i == metricsAlone)
	}
}

// letGo ends the servers whose site is not among next, and returns when their addresses
// are free.
func (p *pages) letGo(next [servers]site) {
	for i, s := range p.servers {
		if s != nil && s.site != next[i] {
			s.stop()
			<-s.done
			p.servers[i] = nil
		}
	}
}

// site is what is served by one of the servers.
func (p *pages) site(i int) site {
	if p.servers[i] == nil {
		return site{}
	}
	return p.servers[i].site
}

// overlaps reports whether a new site may be taken by a server that is to end.
func (p *pages) overlaps(next [servers]site) bool {
	for i := range next {
		for j, s := range p.servers {
			if next[i] != p.site(i) && s != nil && s.site != next[j] && samePort(s.listener.Addr().String(), next[i].address) {
				return true
			}
		}
	}
	return false
}

func (p *pages) serve(i int, of site, listener net.Listener) *server {
	ctx, stop := context.WithCancel(p.ctx)
	s := &server{site: of, listener: listener, stop: stop, done: make(chan struct{})}
	handler := p.handler
	if i == metricsAlone {
		handler = p.metricsAlone(of.review)
	}
	if onLoopback(listener.Addr()) {
		handler = localOnly(handler)
	}
	if of.tls {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if certificate := p.certificate.Load(); certificate != nil {
				return certificate, nil
			}
			return nil, errors.New("no certificate")
		}})
	}
	p.running.Go(func() {
		defer close(s.done)
		if err := page.Serve(ctx, listener, handler, p.logger); err != nil && ctx.Err() == nil {
			p.logger.Error("serving the pages failed", "listen", listener.Addr().String(), "error", err)
		}
	})
	return s
}

// metricsAlone serves three paths and no other.
func (p *pages) metricsAlone(reviewed bool) http.Handler {
	scrape := p.handler
	if reviewed {
		scrape = p.reviewer.Require("get", "/metrics", scrape)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", scrape)
	mux.Handle("GET /healthz", p.handler)
	mux.Handle("GET /readyz", p.handler)
	return mux
}

// wait returns when nothing is served any more; the context has ended.
func (p *pages) wait() {
	p.running.Wait()
	p.reviewer.Close()
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
