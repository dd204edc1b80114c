// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
)

func TestSteps(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, test := range []struct {
		name   string
		stages record.Stages
		want   string
	}{
		{"nothing written", record.Stages{Queue: ms(1), Compute: ms(2), Total: ms(3)}, "queue 0-1 compute 1-3"},
		{"side by side", record.Stages{Queue: ms(1), Compute: ms(1), WriteSlices: ms(4), WriteEndpoints: ms(3), Total: ms(6)},
			"queue 0-1 compute 1-2 write_slices 2-6 write_endpoints 2-5"},
		{"one after the other", record.Stages{Queue: ms(1), Compute: ms(1), WriteService: ms(2), WriteSlices: ms(4), WriteEndpoints: ms(3), Total: ms(11), Echo: ms(9)},
			"queue 0-1 compute 1-2 write_service 2-4 write_slices 4-8 write_endpoints 8-11 echo 2-9"},
		{"Endpoints only", record.Stages{Compute: ms(1), WriteEndpoints: ms(3), Total: ms(4)}, "queue 0-0 compute 0-1 write_endpoints 1-4"},
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
	tracer := sdktrace.NewTracerProvider().Tracer("test")
	rec := removal(time.Now())
	rec.Stages.Echo = 10 * time.Millisecond
	b.ReportAllocs()
	for b.Loop() {
		emit(tracer, &rec)
	}
}
