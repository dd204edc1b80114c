// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
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
	of *metrics.Metrics
	// readers counts the streams of changes.
	readers atomic.Int32
}

// Handler returns the handler of all pages: / for people, /metrics, /healthz,
// /readyz, /debug/changes and /debug/status. All are read-only; none shows a
// secret. What goes wrong with /metrics is logged.
func Handler(of *metrics.Metrics, logger *slog.Logger) http.Handler {
	p := &pages{of: of}
	mux := http.NewServeMux()
	mux.Handle("/", Plain(of, logger))
	mux.Handle("GET /debug/status", timed(http.HandlerFunc(p.status)))
	mux.HandleFunc("GET /debug/changes", p.changes)
	p.files(mux)
	return mux
}

// Plain is the handler of what may be shown to others: /metrics, /healthz and /readyz.
func Plain(of *metrics.Metrics, logger *slog.Logger) http.Handler {
	p := &pages{of: of}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", timed(promhttp.HandlerFor(of.Registry(), promhttp.HandlerOpts{
		// A gauge that cannot be told must not hide all the others.
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})))
	mux.Handle("GET /healthz", timed(http.HandlerFunc(p.healthz)))
	mux.Handle("GET /readyz", timed(http.HandlerFunc(p.readyz)))
	return mux
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

// healthz puts the status together, which needs every lock there is: where one is held
// for good there is no answer, and the kubelet ends the process.
func (p *pages) healthz(w http.ResponseWriter, _ *http.Request) {
	p.of.Status()
	plain(w, http.StatusOK, "ok\n")
}

// readyz says what the status says of readiness, and who leads.
func (p *pages) readyz(w http.ResponseWriter, _ *http.Request) {
	s := p.of.Status()
	if !s.Ready {
		plain(w, http.StatusServiceUnavailable, "not ready:\n- "+strings.Join(s.NotReady, "\n- ")+"\n")
		return
	}
	text := "ok\n"
	switch l := &s.Leader; {
	case l.Writes():
		text += fmt.Sprintf("%s: %s\n", l.State, l.Identity)
	case l.Holder != "":
		text += fmt.Sprintf("standby: %q leads\n", l.Holder)
	case l.State != "":
		text += "standby: nobody leads\n"
	}
	plain(w, http.StatusOK, text)
}

// status answers with the whole status; the parameter cluster leaves what concerns a member.
func (p *pages) status(w http.ResponseWriter, r *http.Request) {
	JSON(w, p.of.Status().Of(r.URL.Query().Get("cluster")))
}

// changes answers with one record a line, oldest first; see ParseChangesQuery for the
// parameters.
func (p *pages) changes(w http.ResponseWriter, r *http.Request) {
	query, err := record.ParseChangesQuery(r.URL.Query())
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	defer p.readers.Add(-1)
	if p.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "10")
		plain(w, http.StatusServiceUnavailable, fmt.Sprintf("%d others read the changes, and that is as many as may; end one of them\n", maxReaders))
		return
	}
	s := &stream{w: w, query: query, events: r.Header.Get("Accept") == "text/event-stream"}
	if s.events {
		header(w, "text/event-stream")
	} else {
		header(w, "application/x-ndjson")
	}
	if s.past(p.of.Changes()) && query.Follow {
		s.follow(r.Context(), p.of.Changes())
	}
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

// JSON answers with what is true of this moment alone.
func JSON(w http.ResponseWriter, value any) {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		plain(w, http.StatusInternalServerError, fmt.Sprintf("render the answer: %v\n", err))
		return
	}
	header(w, "application/json")
	_, _ = w.Write(append(body, '\n'))
}
