// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tributary.dev/tributary/metrics/record"
)

const (
	// pageTimeout is how long one answer may take to reach its reader.
	pageTimeout = 30 * time.Second
	// maxReaders of the changes may be served at a time.
	maxReaders = 32
	// slowest is the number of slow changes in a status.
	slowest = 10
	// maxDiffering bounds the differences of each cluster in a status;
	// /debug/native has them all.
	maxDiffering = 200
)

// Handler returns the handler of all pages: / for people, /metrics, /healthz,
// /readyz, /debug/changes, /debug/native and /debug/status. All are read-only; none shows a
// secret.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", timed(m.families()))
	mux.Handle("GET /healthz", timed(http.HandlerFunc(m.healthz)))
	mux.Handle("GET /readyz", timed(http.HandlerFunc(m.readyz)))
	mux.Handle("GET /debug/status", timed(http.HandlerFunc(m.statusPage)))
	mux.Handle("GET /debug/native", timed(http.HandlerFunc(m.nativePage)))
	mux.HandleFunc("GET /debug/changes", m.changesPage)
	m.pages(mux)
	return mux
}

func (m *Metrics) families() http.Handler {
	opts := promhttp.HandlerOpts{
		// A gauge that cannot be told must not hide all the others.
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	}
	if m.logger != nil {
		opts.ErrorLog = slog.NewLogLogger(m.logger.Handler(), slog.LevelError)
	}
	return promhttp.HandlerFor(m.registry, opts)
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
func (m *Metrics) healthz(w http.ResponseWriter, _ *http.Request) {
	stuck := m.heartbeats.Stuck(time.Now())
	if len(stuck) == 0 {
		m.hung.Store(false)
		plain(w, http.StatusOK, "ok\n")
		return
	}
	if !m.hung.Swap(true) && m.logger != nil {
		m.logger.Error("the process does not get on", "stuck", stuck)
	}
	plain(w, http.StatusInternalServerError, "stuck:\n- "+strings.Join(stuck, "\n- ")+"\n")
}

// readyz says what the status page says of readiness.
func (m *Metrics) readyz(w http.ResponseWriter, _ *http.Request) {
	reasons := m.notReady()
	if len(reasons) == 0 {
		plain(w, http.StatusOK, "ok\n"+m.leads())
		return
	}
	text := "not ready:\n"
	for _, reason := range reasons {
		text += "- " + reason + "\n"
	}
	plain(w, http.StatusServiceUnavailable, text)
}

// leads says in a line who leads; "" where nobody can tell.
func (m *Metrics) leads() string {
	if m.leader == nil {
		return ""
	}
	switch l := m.leader(); {
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

// Status is the complete status, as /debug/status serves it.
func (m *Metrics) Status() Status {
	s := m.present()
	s.Slowest = m.records.Ring().Slowest(slowest)
	return s
}

// present is Status without the slowest changes, which take a look at them all.
func (m *Metrics) present() Status {
	var s Status
	if m.status != nil {
		s = m.status()
	}
	if s.Time.IsZero() {
		s.Time = time.Now().UTC()
	}
	for i := range s.Clusters {
		if native := s.Clusters[i].Native; native != nil {
			native.Differing = native.Differing[:min(len(native.Differing), maxDiffering)]
		}
	}
	m.troubles.fill(&s)
	return s
}

func (m *Metrics) statusPage(w http.ResponseWriter, _ *http.Request) {
	s := m.Status()
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
func (m *Metrics) nativePage(w http.ResponseWriter, _ *http.Request) {
	header(w, "application/x-ndjson")
	if m.status == nil {
		return
	}
	out := json.NewEncoder(w)
	for _, c := range m.status().Clusters {
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
func (m *Metrics) changesPage(w http.ResponseWriter, r *http.Request) {
	query, err := record.ParseChangesQuery(r.URL.Query(), time.Now())
	if err != nil {
		status := http.StatusInternalServerError
		if _, ok := errors.AsType[*record.ParamError](err); ok {
			status = http.StatusBadRequest
		}
		plain(w, status, err.Error()+"\n")
		return
	}
	defer m.readers.Add(-1)
	if m.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "10")
		plain(w, http.StatusServiceUnavailable, fmt.Sprintf("%d others read the changes, and that is as many as may; end one of them\n", maxReaders))
		return
	}
	header(w, "application/x-ndjson")
	s := newStream(w, query)
	if !s.past(m.Changes()) || !query.Follow {
		return
	}
	s.follow(r.Context(), m.Changes())
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
