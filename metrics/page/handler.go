// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

const (
	// pageTimeout is how long one answer may take to reach its reader.
	pageTimeout = 30 * time.Second
	// maxReaders of the changes may be served at a time.
	maxReaders = 32
)

// pages answers for a process; its methods are safe for concurrent use.
type pages struct {
	of     *metrics.Metrics
	logger *slog.Logger
	// hung is set while a heartbeat is missed.
	hung atomic.Bool
	// readers counts the streams of changes.
	readers atomic.Int32
}

// Handler returns the handler of all pages: / for people, /metrics, /healthz,
// /readyz, /debug/changes, /debug/native and /debug/status. All are read-only; none shows a
// secret. What goes wrong with them is logged; nil: nowhere.
func Handler(of *metrics.Metrics, logger *slog.Logger) http.Handler {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	p := &pages{of: of, logger: logger}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", timed(p.families()))
	mux.Handle("GET /healthz", timed(http.HandlerFunc(p.healthz)))
	mux.Handle("GET /readyz", timed(http.HandlerFunc(p.readyz)))
	mux.Handle("GET /debug/status", timed(http.HandlerFunc(p.statusPage)))
	mux.Handle("GET /debug/native", timed(http.HandlerFunc(p.nativePage)))
	mux.HandleFunc("GET /debug/changes", p.changesPage)
	p.files(mux)
	return mux
}

func (p *pages) families() http.Handler {
	opts := promhttp.HandlerOpts{
		// A gauge that cannot be told must not hide all the others.
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
		ErrorLog:          slog.NewLogLogger(p.logger.Handler(), slog.LevelError),
	}
	return promhttp.HandlerFor(p.of.Registry(), opts)
}

// timed bounds the time in which an answer is written, so that a reader that
// stalls does not hold a connection for good.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		allow(w, pageTimeout)
		next.ServeHTTP(w, r)
	})
}

// allow extends the time in which the connection must take what is written. A
// writer that has no deadline (a recorder in a test) needs none.
func allow(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// healthz fails while a loop of the process does not get on. It takes no lock that one
// could hold.
func (p *pages) healthz(w http.ResponseWriter, _ *http.Request) {
	stuck := p.of.Heartbeats().Stuck(time.Now())
	if len(stuck) == 0 {
		p.hung.Store(false)
		plain(w, http.StatusOK, "ok\n")
		return
	}
	if !p.hung.Swap(true) {
		p.logger.Error("the process does not get on", "stuck", stuck)
	}
	plain(w, http.StatusInternalServerError, "stuck:\n- "+strings.Join(stuck, "\n- ")+"\n")
}

// readyz says what the status page says of readiness.
func (p *pages) readyz(w http.ResponseWriter, _ *http.Request) {
	reasons := p.of.NotReady()
	if len(reasons) == 0 {
		plain(w, http.StatusOK, "ok\n"+p.leads())
		return
	}
	text := "not ready:\n"
	for _, reason := range reasons {
		text += "- " + reason + "\n"
	}
	plain(w, http.StatusServiceUnavailable, text)
}

// leads says in a line who leads; "" where nobody can tell.
func (p *pages) leads() string {
	switch l := p.of.Leader(); {
	case l.State == "":
		return ""
	case l.Writes():
		return fmt.Sprintf("%s: %s\n", l.State, cmp.Or(l.Identity, "this process"))
	case l.Holder == "":
		return "standby: nobody leads\n"
	default:
		return fmt.Sprintf("standby: %q leads\n", l.Holder)
	}
}

func (p *pages) statusPage(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	scope := metrics.Scope{Cluster: query.Get("cluster")}
	scope.Namespace, scope.Service, _ = strings.Cut(query.Get("service"), "/")
	s := p.of.StatusOf(scope)
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprintf("render status: %v", err), http.StatusInternalServerError)
		return
	}
	header(w, "application/json")
	_, _ = w.Write(append(body, '\n'))
}

// nativePage answers with one difference between the members' own controllers
// and Tributary a line, as JSON: all of them.
func (p *pages) nativePage(w http.ResponseWriter, _ *http.Request) {
	header(w, "application/x-ndjson")
	out := json.NewEncoder(w)
	for _, c := range p.of.Clusters() {
		if c.Native == nil {
			continue
		}
		for i := range c.Native.Differing {
			if out.Encode(&c.Native.Differing[i]) != nil {
				return // the reader is gone
			}
		}
	}
}

// changesPage answers with one record a line, oldest first; see ParseChangesQuery
// for the parameters.
func (p *pages) changesPage(w http.ResponseWriter, r *http.Request) {
	query, err := record.ParseChangesQuery(r.URL.Query(), time.Now())
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*record.ParamError](err); ok {
			status = http.StatusBadRequest
		}
		plain(w, status, err.Error()+"\n")
		return
	}
	defer p.readers.Add(-1)
	if p.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "10")
		plain(w, http.StatusServiceUnavailable, fmt.Sprintf("%d others read the changes, and that is as many as may; end one of them\n", maxReaders))
		return
	}
	header(w, "application/x-ndjson")
	s := newStream(w, query)
	if !s.past(p.of.Changes()) || !query.Follow {
		return
	}
	s.follow(r.Context(), p.of.Changes())
}

// Server is what answers call this program in the header of that name: who finds its
// address taken can tell by whom.
const Server = "tributary"

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Server", Server)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
}

func plain(w http.ResponseWriter, status int, text string) {
	header(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
