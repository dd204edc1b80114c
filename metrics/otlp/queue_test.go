// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// errAway is what a request to nobody ends with.
var errAway = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}

// sink is a span exporter without a network, for tests in virtual time.
type sink struct {
	mu sync.Mutex
	// answer tells what becomes of the next request.
	answer func(ctx context.Context) error
	// requests counts them, taken the changes of those that were taken.
	requests, taken int
}

func (s *sink) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	s.mu.Lock()
	s.requests++
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

func (s *sink) state() (requests, taken int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.taken
}

// virtual starts an exporter to a sink. Call it in a bubble.
func virtual(t *testing.T, ring *record.Ring, log *journal) (s *sink, end func()) {
	s = &sink{}
	return s, start(t, newExporter(Options{Changes: ring, Logger: log.logger()}, s))
}

func add(ring *record.Ring, n int) {
	for range n {
		rec := removal(time.Now().Add(-9 * time.Millisecond))
		ring.Add(&rec)
	}
}

func TestAFailureIsToldOnceAndItsEnd(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := record.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(context.Context) error { return errAway })
		for range 3 {
			add(ring, 1)
			time.Sleep(12 * time.Second)
		}
		s.set(nil)
		add(ring, 4)
		time.Sleep(10 * time.Second)
		if _, taken := s.state(); taken != 4 {
			t.Errorf("%d changes came; want the 4 after the failures", taken)
		}
		end()
		want := "level=WARN msg=\"exporting traces fails, spans are left out\" error=\"dial: connection refused\"\n" +
			"level=INFO msg=\"exporting traces works again\" lost_spans=15 lost_changes=0\n"
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
		ring := record.NewRing(300, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(ctx context.Context) error {
			sleep(ctx, 20*time.Second)
			return nil
		})
		for range 5 {
			add(ring, 1000)
			time.Sleep(5 * time.Second)
		}
		s.set(nil)
		time.Sleep(time.Minute)
		_, taken := s.state()
		if taken < 300 || taken > 3000 {
			t.Errorf("%d of 5000 changes came", taken)
		}
		end()
		if text := log.String(); !strings.HasPrefix(text, "level=WARN msg=\"changes come faster than their traces can be exported, some are left out\"\n") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestAChangeWaitsForItsEcho(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New(metrics.Options{})
		var log journal
		s, end := virtual(t, m.Changes(), &log)
		m.Change(removal(time.Now().Add(-9 * time.Millisecond)))
		time.Sleep(900 * time.Millisecond)
		rec := removal(time.Now().Add(-9 * time.Millisecond))
		ref := record.Ref{Kind: "Endpoints", ResourceVersion: "1"}
		m.Expect(m.Change(rec), &rec, []record.Ref{ref})
		time.Sleep(1200 * time.Millisecond)
		if _, taken := s.state(); taken != 1 {
			t.Errorf("%d changes were sent after 2.1 s; want the first one", taken)
		}
		m.Echo(ref, time.Now())
		time.Sleep(4 * time.Second)
		if _, taken := s.state(); taken != 2 {
			t.Errorf("%d changes were sent; want both", taken)
		}
		end()
	})
}

// TestTheRestIsSentAtTheEnd: what is in flight is waited for, and not sent twice.
func TestTheRestIsSentAtTheEnd(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := record.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(ctx context.Context) error {
			if !sleep(ctx, 2500*time.Millisecond) {
				return ctx.Err()
			}
			return nil
		})
		add(ring, 20)
		time.Sleep(3 * time.Second) // it is on its way
		s.set(nil)
		add(ring, 1)
		begin := time.Now()
		end()
		if _, taken := s.state(); taken != 21 {
			t.Errorf("%d changes came; want each of 21 once", taken)
		}
		if took := time.Since(begin); took > grace {
			t.Errorf("ending took %v", took)
		}
		if log.String() != "" {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestTheEndDoesNotWaitForEver: nothing is taken, and that is told.
func TestTheEndDoesNotWaitForEver(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := record.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		s.set(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		add(ring, 5000)
		begin := time.Now()
		end()
		if took := time.Since(begin); took != grace {
			t.Errorf("ending took %v; want %v", took, grace)
		}
		if !strings.Contains(log.String(), "exporting traces fails") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("log: %s", log.String())
		}
	})
}

func TestASamplerThatWantsNothing(t *testing.T) {
	environment(t, map[string]string{"OTEL_TRACES_SAMPLER": "always_off"})
	synctest.Test(t, func(t *testing.T) {
		ring := record.NewRing(0, 0)
		var log journal
		s, end := virtual(t, ring, &log)
		add(ring, 250)
		time.Sleep(5 * time.Second)
		end()
		if requests, _ := s.state(); requests != 0 || log.String() != "" {
			t.Errorf("%d requests; log: %s", requests, log.String())
		}
	})
}

// TestAComplaintIsNotSentAgain: the specification forbids to repeat what a collector
// took in part.
func TestAComplaintIsNotSentAgain(t *testing.T) {
	for protocol, start := range map[string]func(testing.TB) *collector{protocolHTTP: overHTTP, protocolGRPC: overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			c := start(t)
			c.reply.partial = &collect.ExportTracePartialSuccess{RejectedSpans: 3, ErrorMessage: "too old"}
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
			ring := record.NewRing(0, 0)
			add(ring, 100)
			var log journal
			end := running(t, ring, &log)
			for patience := time.After(30 * time.Second); len(c.spans()) < 500; {
				select {
				case <-c.got:
				case <-patience:
					t.Fatalf("%d spans were sent; want 500; log: %s", len(c.spans()), log.String())
				}
			}
			end()
			if n := len(c.spans()); n != 500 {
				t.Errorf("%d spans were sent; want each of 500 once", n)
			}
			if text := log.String(); !strings.Contains(text, "too old") || strings.Count(text, "\n") != 2 {
				t.Errorf("log:\n%s", text)
			}
		})
	}
}
