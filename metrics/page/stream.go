// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"tributary.dev/tributary/metrics/record"
)

const (
	// batch is how many records are sent at a time.
	batch = 256
	// keepalive is how often a quiet stream sends an empty line, so that both
	// sides notice when the other is gone.
	keepalive = 15 * time.Second
	// stallTimeout is how long a reader may not read anything before its stream
	// is ended.
	stallTimeout = 10 * time.Second
)

// stream writes records to one reader: as JSON lines, or with events as server-sent events (for
// which a browser has EventSource) of the same JSON. Events tell of what comes alone.
type stream struct {
	w      http.ResponseWriter
	query  record.Query
	events bool
	// after is the number of the last record that was read.
	after uint64
	buf   []byte
}

// serve sends the records that the query picks: those of the past, and if it asks for that those that
// come, until ctx is done or the reader is gone.
func (s *stream) serve(ctx context.Context, ring *record.Ring) {
	if past := ring.All(); len(past) > 0 {
		s.after = past[0].Seq - 1
		if s.events {
			s.after = past[len(past)-1].Seq
		}
	}
	quiet := time.NewTicker(keepalive)
	defer quiet.Stop()
	for {
		added := ring.Watch()
		if !s.next(ring) || !s.query.Follow {
			return
		}
		select {
		case <-added:
		case <-quiet.C:
			s.buf = append(s.buf, '\n') // an empty line means nothing in either form
		case <-ctx.Done():
			s.next(ring)
			return
		}
	}
}

// next sends what has come since the last call, or the answer's head at least. It returns false when the reader is gone.
func (s *stream) next(ring *record.Ring) bool {
	for {
		records, missed := ring.After(s.after, batch)
		s.after += missed
		if missed > 0 && !s.events {
			s.buf = fmt.Appendf(s.buf, "{\"missed\":%d}\n", missed)
		}
		for _, rec := range records {
			s.after = rec.Seq
			if !s.query.Match(rec) {
				continue
			}
			text, _ := json.Marshal(rec) // a record always marshals
			if s.events {
				s.buf = fmt.Appendf(s.buf, "data: %s\n\n", text)
			} else {
				s.buf = append(append(s.buf, text...), '\n')
			}
		}
		if !s.flush() {
			return false
		}
		if len(records) < batch {
			return true
		}
	}
}

// flush sends what was gathered.
func (s *stream) flush() bool {
	to := http.NewResponseController(s.w)
	_ = to.SetWriteDeadline(time.Now().Add(stallTimeout)) // a recorder in a test needs none
	if _, err := s.w.Write(s.buf); err != nil {
		return false
	}
	s.buf = s.buf[:0]
	return to.Flush() == nil
}

const (
	// shutdownTimeout is how long answers in flight may take once Serve has to end.
	shutdownTimeout = 2 * time.Second
	// pageTimeout is how long one answer may take to reach its reader; a stream extends it by itself.
	pageTimeout = 30 * time.Second
)

// Serve serves the handler on the listener, which it owns, until ctx is done; then it ends the
// streams, lets short answers finish and returns nil.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	server := &http.Server{
		Handler: handler,
		// Streams end with ctx: their requests' contexts descend from it. No
		// ReadTimeout: net/http would end a stream with it.
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      pageTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		_ = server.Close()
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	<-ended
	return nil
}
