// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// pages answers for a process; its methods are safe for concurrent use.
type pages struct{ of *metrics.Metrics }

//go:embed page.html page.css page.js icon.svg
var pageFiles embed.FS

// pageTemplate escapes by context: what clusters call their objects cannot
// become markup, an address of a link or a script.
var pageTemplate = template.Must(template.New("page.html").Funcs(texts).ParseFS(pageFiles, "page.html"))

// pagePolicy lets the page load its own files and talk to its own server, and
// nothing else: no inline script or style, no frame around it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// Handler returns the handler of all pages: / for people, /metrics, /healthz,
// /readyz, /debug/changes and /debug/status. All are read-only; none shows a
// secret. What goes wrong with /metrics is logged.
func Handler(of *metrics.Metrics, logger *slog.Logger) http.Handler {
	p := &pages{of}
	mux := http.NewServeMux()
	mux.Handle("/", Plain(of, logger))
	mux.HandleFunc("GET /{$}", p.page)
	mux.HandleFunc("GET /debug/status", func(w http.ResponseWriter, _ *http.Request) { JSON(w, of.Status()) })
	mux.HandleFunc("GET /debug/changes", p.changes)
	files := http.FileServerFS(pageFiles)
	for file, contentType := range map[string]string{
		"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
	} {
		mux.HandleFunc("GET /"+file, func(w http.ResponseWriter, r *http.Request) {
			header(w, contentType)
			files.ServeHTTP(w, r)
		})
	}
	return mux
}

// Plain is the handler of what may be shown to others: /metrics, /healthz and /readyz.
func Plain(of *metrics.Metrics, logger *slog.Logger) http.Handler {
	p := &pages{of}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(of.Registry(), promhttp.HandlerOpts{
		// A gauge without a value must not hide all the others.
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelError),
	}))
	mux.HandleFunc("GET /healthz", p.healthz)
	mux.HandleFunc("GET /readyz", p.readyz)
	return mux
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

// page shows the status and the newest changes. Every link in it is relative, so that it works
// behind a proxy that serves it below a path.
func (p *pages) page(w http.ResponseWriter, _ *http.Request) {
	status := p.of.Status()
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, newView(&status, p.of.Changes().All())); err != nil {
		plain(w, http.StatusInternalServerError, fmt.Sprintf("render the page: %v\n", err))
		return
	}
	header(w, "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body.Bytes())
}

// changes answers with one record a line, oldest first; see ParseQuery for the parameters.
func (p *pages) changes(w http.ResponseWriter, r *http.Request) {
	query, err := record.ParseQuery(r.URL.Query())
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	s := &stream{w: w, query: query, events: r.Header.Get("Accept") == "text/event-stream"}
	header(w, "text/plain; charset=utf-8") // JSON lines, which a browser shows as text
	if s.events {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	s.serve(r.Context(), p.of.Changes())
}

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Server", "tributary") // who finds its address taken can tell by whom
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
