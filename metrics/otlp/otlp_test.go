// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"tributary.dev/tributary/metrics/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sample is one of the records of package record: a removal, or one with everything set.
func sample(t *testing.T, line int) *record.Change {
	t.Helper()
	all, err := os.ReadFile("../record/testdata/records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var r record.Change
	if err := json.Unmarshal([]byte(strings.Split(string(all), "\n")[line]), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestSpansOfAChange(t *testing.T) {
	seen := tracetest.NewInMemoryExporter()
	e := newExporter("v1", sdktrace.WithSyncer(seen))
	removal, failed := sample(t, 0), sample(t, 1)
	removal.TraceID = record.NewTraceID()
	failed.Error = "\xff" + strings.Repeat("x", 5000)
	failed.Added = make([]string, 100)
	e.Export(removal)
	e.Export(failed)
	spans := map[string]tracetest.SpanStub{}
	for _, s := range seen.GetSpans() {
		key := s.Name
		if s.SpanContext.TraceID().String() != removal.TraceID {
			key = "failed " + key
		}
		spans[key] = s
	}
	root := spans["change"]
	if got := root.EndTime.Sub(root.StartTime); got != removal.Stages.Total || !root.StartTime.Equal(removal.Cause.Arrival) {
		t.Errorf("the change took %v from %v", got, root.StartTime)
	}
	for name, took := range map[string]time.Duration{
		"queue": removal.Stages.Queue, "compute": removal.Stages.Compute, "write_slices": removal.Stages.WriteSlices, "write_endpoints": removal.Stages.WriteEndpoints,
	} {
		if s := spans[name]; s.EndTime.Sub(s.StartTime) != took || s.Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("%s took %v; want %v within the change", name, s.EndTime.Sub(s.StartTime), took)
		}
	}
	bad := spans["failed change"]
	if bad.Status.Code != codes.Error || len(bad.Status.Description) > maxError+3 {
		t.Errorf("a failure has status %v", bad.Status)
	}
	for _, a := range bad.Attributes {
		if n := len(a.Value.AsStringSlice()); n > maxAddresses {
			t.Errorf("%s has %d values", a.Key, n)
		}
	}
}

func TestNothingIsSentWithoutAnEndpoint(t *testing.T) {
	for _, env := range []map[string]string{
		{}, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			e, err := New(t.Context(), "v1", slog.New(slog.DiscardHandler))
			if e != nil || err != nil {
				t.Errorf("%v: %v, %v", env, e, err)
			}
			e.Export(nil) // of nil, does nothing
			e.Shutdown()
		})
	}
}

// TestExport: the last changes are sent at the end, and a collector that fails is reported in
// the log, without what the URL or the headers hold.
func TestExport(t *testing.T) {
	bodies := make(chan []byte, 100)
	status := http.StatusOK
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
		w.WriteHeader(status)
	}))
	defer collector.Close()
	defer http.DefaultClient.CloseIdleConnections()
	export := func() (log string) {
		var out bytes.Buffer
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", strings.Replace(collector.URL, "://", "://user:hunter2@", 1))
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2")
		e, err := New(t.Context(), "v1", slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		e.Export(sample(t, 0))
		e.Shutdown()
		return out.String()
	}
	log := export()
	if body := <-bodies; !bytes.Contains(body, []byte("10.2.3.4:8080")) || strings.Contains(log, "fails") {
		t.Errorf("sent %q, logged %s", body, log)
	}
	status = http.StatusBadRequest
	if log = export(); !strings.Contains(log, "exporting traces fails") || strings.Contains(log, "hunter2") {
		t.Errorf("logged %s", log)
	}
}
