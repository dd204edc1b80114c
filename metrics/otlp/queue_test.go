// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"tributary.dev/tributary/metrics"
)

// errAway is what a request to nobody ends with.
var errAway = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// sink is a span exporter without a network, for tests in virtual time.
type sink struct {
	mu sync.Mutex
	// answer tells what becomes of the next request.
	answer func(ctx context.Context) error
	// sent are the spans of each request, as "trace span" of the first.
	sent []string
	// taken counts the changes of requests that were taken.
	taken int
}

func (s *sink) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.mu.Lock()
	s.sent = append(s.sent, spans[0].SpanContext().TraceID().String()+" "+spans[0].SpanContext().SpanID().String())
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range spans {
		if !span.Parent().IsValid() {
			s.taken++
		}
	}
	return nil
}

func (s *sink) Shutdown(context.Context) error { return nil }

func (s *sink) set(answer func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *sink) state() (requests []string, taken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.sent...), s.taken
}

// virtual starts an exporter to a sink. Call it in a bubble.
func virtual(t *testing.T, ring *metrics.Ring, log *journal) (s *sink, end func()) {
	s = &sink{}
	e := &Exporter{changes: ring, logger: log.logger(), sink: s}
	e.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&e.ended)).Tracer("test")
	return s, start(t, e)
}

func add(ring *metrics.Ring, n int) {
	for range n {
		rec := removal(time.Now().Add(-9 * time.Millisecond))
		ring.Add(&rec)
	}
}

func TestAnOutageIsToldOnceAndNothingIsLost(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		s.set(func(context.Context) error { return errAway })
		add(ring, 3)
		time.Sleep(12 * time.Second)
		add(ring, 4)
		time.Sleep(8 * time.Second)
		s.set(nil)
		time.Sleep(10 * time.Second)
		add(ring, 1)
		time.Sleep(10 * time.Second)
		requests, taken := s.state()
		if taken != 8 {
			t.Errorf("%d changes came; want 8", taken)
		}
		if len(requests) < 4 || requests[0] != requests[1] || requests[1] != requests[2] {
			t.Errorf("a batch that is sent again has other spans: %q", requests)
		}
		want := "level=WARN msg=\"exporting traces fails, changes are kept for a while and sent when it works again\" error=\"dial: connection refused\"\n" +
			"level=INFO msg=\"exporting traces works again\" lost_changes=0 rejected_spans=0\n"
		if log.String() != want {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestABatchThatIsNeverTakenIsGivenUp(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		failures := 0
		s.set(func(context.Context) error {
			if failures++; failures <= attempts {
				return errAway
			}
			return nil
		})
		add(ring, 2)
		time.Sleep(time.Minute)
		add(ring, 5)
		time.Sleep(time.Minute)
		if _, taken := s.state(); taken != 5 {
			t.Errorf("%d changes came; want the 5 after those that were given up", taken)
		}
		if !strings.Contains(log.String(), "works again\" lost_changes=2 ") || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// TestARefusedBatchCostsNoOther: it is not sent again, the next waits for a while
// in the ring, and the log tells once.
func TestARefusedBatchCostsNoOther(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		s.set(func(context.Context) error { return errors.New("400 Bad Request") })
		add(ring, 2)
		time.Sleep(3 * time.Second)
		add(ring, 3)
		time.Sleep(4 * time.Second)
		add(ring, 4)
		time.Sleep(time.Second)
		if requests, _ := s.state(); len(requests) != 2 || requests[0] == requests[1] {
			t.Errorf("requests %q; want one for each of the first two batches", requests)
		}
		s.set(nil)
		time.Sleep(10 * time.Second)
		if _, taken := s.state(); taken != 4 {
			t.Errorf("%d changes came; want the 4 after those that were refused", taken)
		}
		want := "level=WARN msg=\"the collector refuses traces, changes are left out\" error=\"400 Bad Request\"\n" +
			"level=INFO msg=\"exporting traces works again\" lost_changes=5 rejected_spans=0\n"
		if log.String() != want {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// TestTheRingIsTheQueue: a collector that is slow costs records, never memory
// nor time of those who report.
func TestTheRingIsTheQueue(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(300, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		for range 5 {
			add(ring, 1000)
			time.Sleep(5 * time.Second)
		}
		if _, taken := s.state(); taken != 5*300 {
			t.Errorf("%d changes came; want what the ring held", taken)
		}
		add(ring, 100)
		time.Sleep(5 * time.Second)
		want := "level=WARN msg=\"changes come faster than their traces can be exported, some are left out\"\n" +
			"level=INFO msg=\"exporting traces keeps up again\" lost_changes=3500\n"
		if log.String() != want {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestAChangeWaitsForItsEcho(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{})
		var log journal
		s, _ := virtual(t, m.Changes(), &log)
		m.Change(removal(time.Now().Add(-9 * time.Millisecond)))
		time.Sleep(900 * time.Millisecond)
		rec := removal(time.Now().Add(-9 * time.Millisecond))
		ref := metrics.Ref{Kind: "Endpoints", ResourceVersion: "1"}
		m.Expect(m.Change(rec), &rec, []metrics.Ref{ref})
		time.Sleep(200 * time.Millisecond)
		if _, taken := s.state(); taken != 1 {
			t.Errorf("%d changes were sent after 1.1 s; want the first one", taken)
		}
		m.Echo(ref, time.Now())
		time.Sleep(2 * time.Second)
		if _, taken := s.state(); taken != 2 {
			t.Errorf("%d changes were sent; want both", taken)
		}
	})
}

// TestTheRestIsSentAtTheEnd: what is in flight is waited for, and not sent twice.
func TestTheRestIsSentAtTheEnd(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(ctx context.Context) error {
			if !sleep(ctx, 2500*time.Millisecond) {
				return ctx.Err()
			}
			return nil
		})
		add(ring, 2*batch+batch/2)
		time.Sleep(3 * time.Second) // the first batch is on its way since two
		s.set(nil)
		add(ring, 1)
		begin := time.Now()
		end()
		if requests, taken := s.state(); taken != 2*batch+batch/2+1 || len(requests) != 4 {
			t.Errorf("%d changes came in %d requests; want %d in 4", taken, len(requests), 2*batch+batch/2+1)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("ending took %v; want the rest of the request", took)
		}
		if log.String() != "" {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestTheEndDoesNotWaitForEver: nothing is taken, nothing is sent twice in the
// grace, and that is told.
func TestTheEndDoesNotWaitForEver(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		add(ring, 250)
		begin := time.Now()
		end()
		if took := time.Since(begin); took != grace {
			t.Errorf("ending took %v; want %v", took, grace)
		}
		if requests, _ := s.state(); len(requests) != 1 || !strings.Contains(log.String(), "exporting traces fails") {
			t.Errorf("%d requests; log: %s", len(requests), log.String())
		}
	})
}

func TestASamplerThatWantsNothing(t *testing.T) {
	environment(t, map[string]string{"OTEL_TRACES_SAMPLER": "always_off"})
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		add(ring, 250)
		time.Sleep(5 * time.Second)
		end()
		if requests, _ := s.state(); len(requests) != 0 || log.String() != "" {
			t.Errorf("%d requests; log: %s", len(requests), log.String())
		}
	})
}
