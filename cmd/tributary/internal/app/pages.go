// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/page"
)

// server is one address at which pages are served.
type server struct {
	listener net.Listener
	handler  http.Handler
}

// listen binds the addresses that the configuration names, all or none: the first serves everything, the
// other what others may see.
func listen(c *config.Config, m *metrics.Metrics, everything http.Handler, logger *slog.Logger) (all []server, err error) {
	for _, site := range []struct {
		field, address string
		handler        http.Handler
	}{{"listen", c.Listen, everything}, {"metricsListen", c.MetricsListen, page.Plain(m, logger)}} {
		if site.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", site.address)
		if err != nil {
			for _, s := range all {
				s.listener.Close()
			}
			return nil, fmt.Errorf("%s: cannot serve at %q: %w; free the address or choose another", site.field, site.address, err)
		}
		logger.Info("serving", "field", site.field, "listen", listener.Addr().String())
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
			site.handler = localOnly(site.handler)
		}
		all = append(all, server{listener, site.handler})
	}
	return all, nil
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
	name := strings.ToLower(strings.TrimSuffix((&url.URL{Host: host}).Hostname(), "."))
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback() || name == "localhost" || strings.HasSuffix(name, ".localhost")
}
