// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package sinks

import (
	"context"
	"errors"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/syncer"
)

// term is one time of leadership of a sink.
type term struct {
	*sink
	Term
	poster  poster
	keeping keeping
	// flight brings what became of the request under way, and giveUp ends it.
	flight  chan outcome
	giveUp  context.CancelFunc
	refused syncer.Key
}

// run tells the receiver until ctx is done, lets the request in flight end, and writes down
// what was acknowledged.
func (s *sink) run(ctx context.Context, o Term, poster poster) {
	defer poster.close()
	t := &term{sink: s, Term: o, poster: poster, flight: make(chan outcome, 1)}
	where := o.Where
	where.Sink = s.spec.Name
	t.keeping = newKeeping(where, s.receiver(), s.unkept())
	if !t.begin(ctx) {
		return
	}
	t.loop(ctx)
	t.end()
}

func (s *sink) unkept() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Unkept != ""
}

func pauses() wait.Backoff {
	return wait.Backoff{Duration: pauseFirst, Factor: 2, Jitter: 0.2, Steps: math.MaxInt32, Cap: pauseMax}
}

// loop is all that a term does.
func (t *term) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	flying := false
	for {
		if !flying {
			flying = t.launch(ctx)
		}
		if t.keeping.changed && !time.Now().Before(t.keeping.due) {
			t.save(ctx, false)
		}
		timer.Reset(t.rest(flying))
		select {
		case <-ctx.Done():
			if flying {
				t.await()
			}
			return
		case o := <-t.flight:
			flying = false
			t.land(o)
		case <-t.wake:
		case <-timer.C:
		}
	}
}

// rest is for how long there is nothing to do, unless something happens.
func (t *term) rest(flying bool) time.Duration {
	const long = time.Hour
	rest := long
	if t.keeping.changed {
		rest = time.Until(t.keeping.due)
	}
	t.mu.Lock()
	next := t.ledger.Next()
	t.mu.Unlock()
	if !flying && !next.IsZero() {
		rest = min(rest, time.Until(later(next, t.pace.next(t.spec.Rate))))
	}
	return max(0, rest)
}

// launch begins a request, if one is due.
func (t *term) launch(ctx context.Context) bool {
	now := time.Now()
	if now.Before(t.pace.next(t.spec.Rate)) || ctx.Err() != nil {
		return false
	}
	t.mu.Lock()
	next := t.ledger.Next()
	if next.IsZero() || next.After(now) {
		t.mu.Unlock()
		return false
	}
	batch := t.ledger.Take(now)
	pending, generation := t.ledger.Pending(), t.ledger.State().Generation
	t.mu.Unlock()
	if len(batch) == 0 {
		return false
	}
	if t.mark(ctx, batch, pending, generation); ctx.Err() != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ledger.Failed(now)
		return false
	}
	t.pace.began = time.Now()
	t.refused = batch[0].Key
	body := encode(t.source, t.spec.Name, batch, t.pace.began)
	flight, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.spec.Timeout)
	t.giveUp = cancel
	go func() {
		defer cancel()
		bound, free, held := t.Hold(flight)
		if !held {
			t.flight <- outcome{result: resultStopped, err: errors.New("this process does not lead")}
			return
		}
		defer free()
		t.flight <- t.poster.post(bound, body)
	}()
	return true
}

// await gives the request in flight a little time, and waits for its end.
func (t *term) await() {
	timer := time.AfterFunc(landing, t.giveUp)
	defer timer.Stop()
	t.land(<-t.flight)
}

// land takes what became of a request.
func (t *term) land(o outcome) {
	now := time.Now()
	found, widespread := false, false
	t.mu.Lock()
	switch o.result {
	case resultOK:
		t.ledger.Acknowledged(now)
		t.keeping.touch(now)
	case resultRefused:
		found, widespread = t.ledger.Refused(now)
	default:
		t.ledger.Failed(now)
	}
	t.mu.Unlock()
	if found && !widespread {
		t.keeping.touch(now)
		t.logger.Warn("the receiver refuses a Service, which is left alone for a while; others are told", "service", t.refused.String(), "error", o.err)
	}
	t.observe(t.spec.Name, string(o.result), now.Sub(t.pace.began))
	switch {
	case o.result == resultOK:
		t.pace.backoff = pauses()
		t.acknowledged(now)
	case o.result == resultRefused && !widespread:
		t.note(func(s *Status) { s.Requests++; s.Failures++; s.LastError = o.err.Error() })
	default:
		pause := pauseFirst
		if o.result != resultStopped { // which is no fault of the receiver
			pause = max(t.pace.backoff.Step(), o.pause)
		}
		if o.result == resultRefused { // it may take another Service
			pause = min(pause, pauseRefused)
		}
		t.pace.resume = later(t.pace.resume, now.Add(pause))
		t.failed(o, pause)
	}
}

func (t *term) acknowledged(at time.Time) {
	var was bool
	t.note(func(s *Status) {
		was = s.Failing
		s.Requests++
		s.Failing, s.LastAcknowledged = false, at.UTC()
		if s.Refused == 0 {
			s.LastError = ""
		}
	})
	if was {
		t.logger.Info("the receiver acknowledges again")
	}
}

func (t *term) failed(o outcome, pause time.Duration) {
	var was bool
	t.note(func(s *Status) {
		was = s.Failing
		s.Requests++
		s.Failures++
		s.Failing, s.LastError = o.result != resultStopped, o.err.Error()
	})
	if !was && o.result != resultStopped {
		t.logger.Warn("the receiver does not acknowledge; the newest state is told when it does", "result", string(o.result), "error", o.err, "pause", pause.Round(time.Millisecond))
	}
}

func (s *sink) note(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
