// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"tributary.dev/tributary/metrics/record"
)

const (
	// batch is how many records are taken from the ring at a time.
	batch = 256
	// flushBytes is how much is gathered before it is sent.
	flushBytes = 64 << 10
	// keepalive is how often a quiet stream sends an empty line, so that both
	// sides notice when the other is gone.
	keepalive = 15 * time.Second
	// stallTimeout is how long a reader may not take anything before its stream
	// is ended.
	stallTimeout = 10 * time.Second
)

// stream writes records to one reader: as JSON lines, or with events as server-sent
// events (for which a browser has EventSource) of the same JSON.
type stream struct {
	w      http.ResponseWriter
	query  record.ChangesQuery
	events bool
	// after is the number of the last record that was looked at.
	after uint64
	buf   []byte
}

// past sends the records kept that the query picks; events tell of what comes alone. It
// returns false when the reader is gone.
func (s *stream) past(ring *record.Ring) bool {
	for _, rec := range ring.All() {
		if s.after = rec.Seq; !s.events && s.query.Match(rec) && !s.line(rec) {
			return false
		}
	}
	return s.flush()
}

// follow sends records as they come until ctx is done or the reader is gone.
func (s *stream) follow(ctx context.Context, ring *record.Ring) {
	quiet := time.NewTicker(keepalive)
	defer quiet.Stop()
	for {
		added := ring.Watch()
		if !s.next(ring) {
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

// next sends what has come since the last call. It returns false when the reader is gone.
func (s *stream) next(ring *record.Ring) bool {
	for {
		records, missed := ring.After(s.after, batch)
		if s.after += missed; missed > 0 && !s.events {
			s.buf = fmt.Appendf(s.buf, "{\"missed\":%d}\n", missed)
		}
		for _, rec := range records {
			if s.after = rec.Seq; s.query.Match(rec) && !s.line(rec) {
				return false
			}
		}
		if len(records) < batch {
			return len(s.buf) == 0 || s.flush()
		}
	}
}

func (s *stream) line(rec *record.Change) bool {
	text, err := json.Marshal(rec)
	if err != nil {
		return false // cannot happen: a record always marshals
	}
	if s.events {
		s.buf = fmt.Appendf(s.buf, "data: %s\n\n", text)
	} else {
		s.buf = append(append(s.buf, text...), '\n')
	}
	return len(s.buf) < flushBytes || s.flush()
}

// flush sends what was gathered; the answer's head at least.
func (s *stream) flush() bool {
	allow(s.w, stallTimeout)
	if len(s.buf) > 0 {
		if _, err := s.w.Write(s.buf); err != nil {
			return false
		}
		s.buf = s.buf[:0]
	}
	return http.NewResponseController(s.w).Flush() == nil
}
