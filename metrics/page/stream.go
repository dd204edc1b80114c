// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
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

// stream writes records as JSON lines to one reader.
type stream struct {
	w     http.ResponseWriter
	query record.ChangesQuery
	// after is the number of the last record that was looked at.
	after uint64
	buf   []byte
	// sent is when the reader last got something.
	sent time.Time
}

func newStream(w http.ResponseWriter, query record.ChangesQuery) *stream {
	return &stream{w: w, query: query}
}

// past sends the records kept that the query picks. It holds no more of them at a time than
// a batch, however slowly they are read. It returns false when the reader is gone.
func (s *stream) past(ring *record.Ring) bool {
	after, last := s.span(ring)
	for s.after = after; s.after < last; {
		records, missed := ring.After(s.after, batch)
		s.miss(missed)
		for _, rec := range records {
			if rec.Seq > last {
				return s.flush()
			}
			s.after = rec.Seq
			if s.query.Match(rec) && !s.line(rec) {
				return false
			}
		}
	}
	return s.flush()
}

// span finds what past is to send: the records after one, up to the last; when the query
// follows, only up to the first that may still change.
func (s *stream) span(ring *record.Ring) (after, last uint64) {
	var picked []uint64
	now, settled := time.Now(), true
	for full := true; full && settled; {
		records, missed := ring.After(last, batch)
		if last += missed; missed > 0 {
			after = last
		}
		full = len(records) == batch
		for _, rec := range records {
			if settled = !s.query.Follow || rec.Unsettled(now) == 0; !settled {
				break
			}
			if last = rec.Seq; s.query.Match(rec) {
				picked = append(picked, rec.Seq)
			}
		}
	}
	if n := s.query.Limit; n > 0 && len(picked) > n {
		after = picked[len(picked)-n] - 1
	}
	return after, last
}

// miss says how many records are no longer kept.
func (s *stream) miss(n uint64) {
	if n > 0 {
		s.after += n
		s.buf = fmt.Appendf(s.buf, "{\"missed\":%d}\n", n)
	}
}

// follow sends records as they come until ctx is done or the reader is gone. A
// written one waits for its echo, for a moment, and so does what comes after it:
// the reader gets every step, and the order stays.
func (s *stream) follow(ctx context.Context, ring *record.Ring) {
	for {
		changed := ring.Watch()
		patience, alive := s.next(ring, time.Now())
		if !alive {
			return
		}
		if !s.pause(ctx, changed, patience) {
			s.next(ring, record.EndOfTime) // the process may end: nothing more will be known
			return
		}
	}
}

// pause waits until the ring changed, the patience with a record (0: no limit) is
// over, or the reader should hear something. It returns false when ctx is done.
func (s *stream) pause(ctx context.Context, changed <-chan struct{}, patience time.Duration) bool {
	quiet := time.Until(s.sent.Add(keepalive))
	if patience == 0 || quiet < patience {
		patience = quiet
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	if time.Since(s.sent) >= keepalive {
		s.buf = append(s.buf, '\n')
	}
	return true
}

// next sends what has come since the last call, up to the first record that may
// still change, and returns for how long to wait for that one. alive is false when
// the reader is gone.
func (s *stream) next(ring *record.Ring, now time.Time) (patience time.Duration, alive bool) {
	for {
		records, missed := ring.After(s.after, batch)
		s.miss(missed)
		for _, rec := range records {
			if patience = rec.Unsettled(now); patience > 0 {
				return patience, s.rest()
			}
			s.after = rec.Seq
			if s.query.Match(rec) && !s.line(rec) {
				return 0, false
			}
		}
		if len(records) < batch {
			return 0, s.rest()
		}
	}
}

// rest sends what was gathered, if anything.
func (s *stream) rest() bool { return len(s.buf) == 0 || s.flush() }

func (s *stream) line(rec *record.Change) bool {
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
	s.sent = time.Now()
	return http.NewResponseController(s.w).Flush() == nil
}
