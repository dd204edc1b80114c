// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tributary.dev/tributary/metrics/record"
)

const (
	// batch is how many spans travel in one request: less than the 4 MiB that a gRPC
	// server takes by default even when all are as large as they can be.
	batch = 128
	// settle is how long a change waits for its echo, longer than our own watch ever
	// needs, and how long spans gather before they are sent.
	settle = time.Second
	// grace is how long Run may take to send the rest once it has to end.
	grace = 2 * time.Second
	// page is how many records are read from the ring at a time.
	page = 50
)

// Options say what is exported.
type Options struct {
	// Changes is where the records come from.
	Changes *record.Ring
	// Version becomes the attribute service.version.
	Version string
	// Logger is told when exporting begins to fail and when it works again.
	Logger *slog.Logger
}

// Exporter sends change records as traces. A nil Exporter is valid and sends
// nothing.
type Exporter struct {
	changes *record.Ring
	tracer  trace.Tracer
	// provider batches the spans and sends them. It makes Run wait while its queue is
	// full, so that the ring stays the only place where records pile up.
	provider *sdktrace.TracerProvider
	delivery *delivery
	// after is the number of the last record whose spans were made.
	after uint64
}

// New returns the exporter that the environment asks for, or nil if it does not
// ask for any: see asked. It sends nothing yet. An error names the variable that
// cannot be used (*VariableError, joined); a caller had better go on without
// traces than without replication.
func New(ctx context.Context, o Options) (*Exporter, error) {
	wanted, err := asked()
	if !wanted || err != nil {
		return nil, err
	}
	protocol, err := readProtocol()
	if err != nil {
		return nil, err
	}
	// What the libraries say on their own is of no use to operators, and may hold
	// the headers of a request. What matters comes back as an error.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Logger.Warn("OpenTelemetry complains", "error", err)
	}))
	identity, err := describe(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	sink, err := newSink(ctx, protocol)
	if err != nil {
		return nil, fmt.Errorf("set up OTLP over %s: %w", protocol, err)
	}
	o.Logger.Info("exporting changes as traces", "protocol", protocol)
	return newExporter(o, sink, sdktrace.WithResource(identity)), nil
}

// newExporter joins the ring to a sink.
func newExporter(o Options, sink sdktrace.SpanExporter, more ...sdktrace.TracerProviderOption) *Exporter {
	e := &Exporter{changes: o.Changes, delivery: newDelivery(sink, o.Logger)}
	e.provider = sdktrace.NewTracerProvider(append(more, sdktrace.WithIDGenerator(recordIDs{}), sdktrace.WithBatcher(e.delivery,
		sdktrace.WithBlocking(), sdktrace.WithBatchTimeout(settle), sdktrace.WithMaxExportBatchSize(batch)))...)
	e.tracer = e.provider.Tracer("tributary.dev/tributary/metrics/otlp", trace.WithInstrumentationVersion(o.Version))
	return e
}

// describe says who sends the spans. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES win.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	identity, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tributary"), attribute.String("service.version", version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, &VariableError{"OTEL_RESOURCE_ATTRIBUTES", "not a list of attributes; write name=value, separated by commas"}
	}
	return identity, nil
}

// newSink makes the exporter for a protocol; both read the rest of the variables
// themselves, and neither connects yet.
func newSink(ctx context.Context, protocol string) (sdktrace.SpanExporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Run exports until ctx is done, then sends what is left, for two seconds at
// most, and returns. To have the last changes too, end ctx after the last one
// was reported. Call it once.
func (e *Exporter) Run(ctx context.Context) {
	if e == nil {
		return
	}
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, e.delivery.abort) })()

	for e.changes.Wait(ctx, e.after) == nil && sleep(ctx, settle) {
		e.emit(false)
	}
	e.emit(true)
	// It returns when the rest was sent or aborted.
	_ = e.provider.Shutdown(context.WithoutCancel(ctx))
	e.delivery.abort()
}

// emit makes the spans of what the ring holds, oldest first: up to the first change
// that should still get its echo, or of all.
func (e *Exporter) emit(all bool) {
	for {
		records, missed := e.changes.After(e.after, page)
		e.after += missed
		e.delivery.missed(missed)
		full := len(records) == page
		if !full && !all {
			records = records[:settled(records, time.Now())]
		}
		for _, rec := range records {
			emit(e.tracer, rec)
			e.after = rec.Seq
		}
		if !full {
			return
		}
	}
}

// settled counts the records, from the first on, that will not change any more.
func settled(records []*record.Change, now time.Time) int {
	for i, rec := range records {
		if rec.Result == record.Written && rec.Stages.Echo == 0 && now.Sub(rec.Time) < settle {
			return i
		}
	}
	return len(records)
}

// sleep waits; it returns false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
