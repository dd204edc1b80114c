// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"tributary.dev/tributary/metrics"
)

// running starts an exporter as cmd does. end makes it send the rest and waits.
func running(t testing.TB, ring *metrics.Ring, log *journal) (end func()) {
	t.Helper()
	e, err := New(t.Context(), Options{Changes: ring, Version: "v0.1.0", Logger: log.logger()})
	if err != nil || e == nil {
		t.Fatalf("New = %v, %v", e, err)
	}
	return start(t, e)
}

func start(t testing.TB, e *Exporter) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { e.Run(ctx) })
	end = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(end)
	return end
}

func TestBothProtocolsTellTheWholeChange(t *testing.T) {
	for protocol, collector := range map[string]func(testing.TB) *collector{"http/protobuf": overHTTP, "grpc": overGRPC} {
		for _, compression := range []string{"none", "gzip"} {
			t.Run(protocol+" "+compression, func(t *testing.T) {
				c := collector(t)
				environment(t, map[string]string{
					"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
					"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20hunter2", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
				})
				var log journal
				m := metrics.New(metrics.Options{})
				begin := time.Now()
				rec := removal(begin)
				seq := m.Change(rec)
				m.Change(creation(begin))
				ref := metrics.Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: "9"}
				m.Expect(seq, &rec, []metrics.Ref{ref})
				m.Echo(ref, begin.Add(11*time.Millisecond))
				end := running(t, m.Changes(), &log)
				select {
				case <-c.got:
				case <-time.After(30 * time.Second):
					t.Fatalf("nothing came; log: %s", log.String())
				}
				end()
				want := told()
				if got := render(c.spans(), begin); got != want {
					t.Errorf("--- got\n%s--- want\n%s", got, want)
				}
				if got := attributesOf(c.resource[0].GetResource().GetAttributes()); !strings.Contains(got, "service.name=tributary") ||
					!strings.Contains(got, "service.version=v0.1.0") || !strings.Contains(got, "deployment.environment.name=test") {
					t.Errorf("resource: %s", got)
				}
				if got := c.headers[0].Get("Authorization"); got != "Bearer hunter2" {
					t.Errorf("authorization %q", got)
				}
				if text := log.String(); strings.Contains(text, "hunter2") || strings.Count(text, "\n") != 1 {
					t.Errorf("log: %s", text)
				}
			})
		}
	}
}

// told is what a collector should know of removal and creation, in their order
// of ending.
func told() string {
	return `queue in change: 0s +2ms
compute in change: 2ms +1ms
write_slices in change: 3ms +5ms
write_endpoints in change: 3ms +6ms
echo in change: 3ms +8ms
change: 0s +9ms
  k8s.cluster.name=idc-a k8s.namespace.name=shop k8s.service.name=web
  tributary.cause.cluster=idc-a tributary.cause.event=modified tributary.cause.ip=10.2.3.4 tributary.cause.kind=Pod tributary.cause.live=true tributary.cause.name=web-1 tributary.cause.namespace=shop tributary.cause.resource_version=77 tributary.cause.state=terminating tributary.cause.uid=u-1
  tributary.change.added.count=0 tributary.change.causes=3 tributary.change.lane=removal tributary.change.readied.count=0 tributary.change.removed.count=2 tributary.change.removed=[10.2.3.4:8080 10.2.3.9:8080] tributary.change.result=written tributary.change.seq=1 tributary.change.unreadied.count=0 tributary.change.writes=2
  cause at 1ms: tributary.cause.cluster=idc-b tributary.cause.event=deleted tributary.cause.kind=Pod tributary.cause.live=true tributary.cause.name=web-9 tributary.cause.namespace=shop tributary.cause.state=gone
queue in change: 0s +0s
compute in change: 0s +1ms
write_service in change: 1ms +2ms
write_slices in change: 3ms +3ms
write_endpoints in change: 6ms +4ms
change: 0s +10ms
  k8s.cluster.name=idc-a k8s.namespace.name=shop k8s.service.name=new
  tributary.cause.cluster=idc-a tributary.cause.event=added tributary.cause.kind=Service tributary.cause.live=true
  tributary.change.added.count=1 tributary.change.added=[10.2.3.4:8080] tributary.change.attempt=1 tributary.change.causes=1 tributary.change.error=create Endpoints shop/new: timeout tributary.change.lane=addition tributary.change.readied.count=0 tributary.change.removed.count=0 tributary.change.result=failed tributary.change.seq=2 tributary.change.unreadied.count=0 tributary.change.writes=0
  error: create Endpoints shop/new: timeout
`
}

// TestHostileTextDoesNotStopTheRest: protobuf refuses invalid UTF-8 with all
// that travels with it, and a collector what is too large.
func TestHostileTextDoesNotStopTheRest(t *testing.T) {
	for protocol, collector := range map[string]func(testing.TB) *collector{"http/protobuf": overHTTP, "grpc": overGRPC} {
		t.Run(protocol, func(t *testing.T) {
			c := collector(t)
			environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.url, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
			ring := metrics.NewRing(0, 1<<30)
			for range batch - 1 {
				rec := hostile(time.Now())
				ring.Add(&rec)
			}
			rec := removal(time.Now())
			ring.Add(&rec)
			var log journal
			running(t, ring, &log)()
			roots := 0
			for _, s := range c.spans() {
				if len(s.GetParentSpanId()) == 0 {
					roots++
				}
			}
			if roots != batch {
				t.Errorf("%d of %d changes came; log: %s", roots, batch, log.String())
			}
		})
	}
}

// TestEndIsPrompt: a collector that does not answer does not keep the program.
func TestEndIsPrompt(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	environment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL})
	ring := metrics.NewRing(0, 0)
	rec := removal(time.Now())
	ring.Add(&rec)
	var log journal
	end := running(t, ring, &log)
	begin := time.Now()
	end()
	if took := time.Since(begin); took > grace+time.Second {
		t.Errorf("ending took %v", took)
	}
	if !strings.Contains(log.String(), "exporting traces fails") {
		t.Errorf("log: %s", log.String())
	}
}

// TestRefusalsDoNotTellSecrets: the log has the collector's answer, not what was
// asked.
func TestRefusalsDoNotTellSecrets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you? "+strings.Repeat("x", 1<<16), http.StatusUnauthorized)
	}))
	defer server.Close()
	environment(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": strings.Replace(server.URL, "://", "://user:hunter2@", 1), "OTEL_EXPORTER_OTLP_HEADERS": "x-key=hunter2",
	})
	ring := metrics.NewRing(0, 0)
	rec := removal(time.Now())
	ring.Add(&rec)
	var log journal
	running(t, ring, &log)()
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "who are you?") || len(text) > 2*maxError {
		t.Errorf("log: %s", text)
	}
}

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
		s.set(func(context.Context) error { return errors.New("connection refused") })
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
		want := "level=WARN msg=\"exporting traces fails, changes are kept for a while and sent when it works again\" error=\"connection refused\"\n" +
			"level=INFO msg=\"exporting traces works again\" lost_changes=0\n"
		if log.String() != want {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

func TestABatchThatIsRefusedIsGivenUp(t *testing.T) {
	environment(t, nil)
	synctest.Test(t, func(t *testing.T) {
		ring := metrics.NewRing(0, 0)
		var log journal
		s, _ := virtual(t, ring, &log)
		refusals := 0
		s.set(func(context.Context) error {
			if refusals++; refusals <= attempts {
				return errors.New("400 Bad Request")
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
		if !strings.Contains(log.String(), "works again\" lost_changes=2") || strings.Count(log.String(), "\n") != 2 {
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
		add(ring, 250)
		time.Sleep(3 * time.Second) // the first batch is on its way since two
		s.set(nil)
		add(ring, 1)
		begin := time.Now()
		end()
		if requests, taken := s.state(); taken != 251 || len(requests) != 4 {
			t.Errorf("%d changes came in %d requests; want 251 in 4", taken, len(requests))
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

func TestSteps(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, test := range []struct {
		name   string
		stages metrics.Stages
		want   string
	}{
		{"nothing written", metrics.Stages{Queue: ms(1), Compute: ms(2), Total: ms(3)}, "queue 0-1 compute 1-3"},
		{"side by side", metrics.Stages{Queue: ms(1), Compute: ms(1), WriteSlices: ms(4), WriteEndpoints: ms(3), Total: ms(6)},
			"queue 0-1 compute 1-2 write_slices 2-6 write_endpoints 2-5"},
		{"one after the other", metrics.Stages{Queue: ms(1), Compute: ms(1), WriteService: ms(2), WriteSlices: ms(4), WriteEndpoints: ms(3), Total: ms(11), Echo: ms(9)},
			"queue 0-1 compute 1-2 write_service 2-4 write_slices 4-8 write_endpoints 8-11 echo 2-9"},
		{"Endpoints only", metrics.Stages{Compute: ms(1), WriteEndpoints: ms(3), Total: ms(4)}, "queue 0-0 compute 0-1 write_endpoints 1-4"},
	} {
		got := ""
		for _, s := range steps(&test.stages) {
			got += fmt.Sprintf(" %s %d-%d", s.name, s.from.Milliseconds(), s.to.Milliseconds())
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s:%s; want %s", test.name, got, test.want)
		}
	}
}

// BenchmarkChange measures what a worker pays for a record: without export, and
// while an exporter sends to a collector on the same machine. Allocations are
// those of the whole process, so the second has the exporter's and the
// collector's too.
func BenchmarkChange(b *testing.B) {
	report := func(b *testing.B, m *metrics.Metrics) {
		rec := removal(time.Now())
		b.ReportAllocs()
		for b.Loop() {
			m.Change(rec)
		}
	}
	b.Run("export=off", func(b *testing.B) {
		environment(b, nil)
		m := metrics.New(metrics.Options{})
		if e, err := New(b.Context(), Options{Changes: m.Changes()}); e != nil || err != nil {
			b.Fatal(e, err)
		}
		report(b, m)
	})
	b.Run("export=on", func(b *testing.B) {
		environment(b, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": overHTTP(b).url})
		m := metrics.New(metrics.Options{})
		var log journal
		end := running(b, m.Changes(), &log)
		report(b, m)
		b.StopTimer()
		end()
	})
}

// BenchmarkEmit measures what the exporter pays for a record.
func BenchmarkEmit(b *testing.B) {
	environment(b, nil)
	e := &Exporter{}
	e.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&e.ended)).Tracer("test")
	rec := removal(time.Now())
	rec.Stages.Echo = 10 * time.Millisecond
	b.ReportAllocs()
	for b.Loop() {
		emit(e.tracer, &rec)
		e.ended.take()
	}
}
