// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"net/http"
	"time"
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

// stream writes records as JSON lines to one reader.
type stream struct {
	w     http.ResponseWriter
	query ChangesQuery
	// after is the number of the last record that was looked at.
	after uint64
	buf   []byte
}

func newStream(w http.ResponseWriter, query ChangesQuery) *stream {
	return &stream{w: w, query: query}
}

// past sends the records kept that the query picks. It returns false when the
// reader is gone.
func (s *stream) past(ring *Ring) bool {
	records := ring.All()
	if len(records) > 0 {
		s.after = records[len(records)-1].Seq
	}
	picked := records[:0]
	for _, rec := range records {
		if s.query.Match(rec) {
			picked = append(picked, rec)
		}
	}
	if n := s.query.Limit; n > 0 && len(picked) > n {
		picked = picked[len(picked)-n:]
	}
	for _, rec := range picked {
		if !s.line(rec) {
			return false
		}
	}
	return s.flush()
}

// follow sends records as they come until ctx is done or the reader is gone.
func (s *stream) follow(ctx context.Context, ring *Ring) {
	for {
		waiting, cancel := context.WithTimeout(ctx, keepalive)
		err := ring.Wait(waiting, s.after)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.buf = append(s.buf, '\n')
		}
		if !s.next(ring) {
			return
		}
	}
}

// next sends what has come since the last call.
func (s *stream) next(ring *Ring) bool {
	for {
		records, missed := ring.After(s.after, batch)
		if missed > 0 {
			s.after += missed
			s.buf = fmt.Appendf(s.buf, "{\"missed\":%d}\n", missed)
		}
		for _, rec := range records {
			s.after = rec.Seq
			if s.query.Match(rec) && !s.line(rec) {
				return false
			}
		}
		if len(records) < batch {
			return s.flush()
		}
	}
}

func (s *stream) line(rec *Record) bool {
	s.buf = append(rec.AppendJSON(s.buf), '\n')
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
