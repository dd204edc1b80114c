// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

// running starts an exporter as cmd does. end makes it send the rest and waits.
func running(t testing.TB, ring *record.Ring, log *journal) (end func()) {
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
				ref := record.Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: "9"}
				m.Expect(seq, &rec, []record.Ref{ref})
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
			ring := record.NewRing(0, 1<<40)
			for range page - 1 {
				rec := hostile(time.Now())
				ring.Add(&rec)
			}
			rec := removal(time.Now())
			ring.Add(&rec)
			var log journal
			running(t, ring, &log)
			roots, patience := 0, time.After(30*time.Second)
			for late := false; roots < page && !late; { // what is left at the end has no time
				select {
				case <-c.got:
				case <-patience:
					late = true
				}
				roots = 0
				for _, s := range c.spans() {
					if len(s.GetParentSpanId()) == 0 {
						roots++
					}
				}
			}
			if roots != page {
				t.Errorf("%d of %d changes came; log: %s", roots, page, log.String())
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
	ring := record.NewRing(0, 0)
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
	ring := record.NewRing(0, 0)
	rec := removal(time.Now())
	ring.Add(&rec)
	var log journal
	running(t, ring, &log)()
	if text := log.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "who are you?") || len(text) > 2*maxError {
		t.Errorf("log: %s", text)
	}
}
