// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"tributary.dev/tributary/metrics/record"
)

const (
	// grace is how long Run may take to send the rest once it has to end.
	grace = 2 * time.Second
	// page is how many records are read from the ring at a time.
	page = 50
	// complaints is how often the log hears at most that exporting fails.
	complaints = time.Minute
)

// Options say what is exported.
type Options struct {
	// Changes is where the records come from.
	Changes *record.Ring
	// Version becomes the attribute service.version.
	Version string
	// Logger is told, once a minute at most, that exporting fails.
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
	// after is the number of the last record whose spans were made.
	after uint64
}

// New returns the exporter that the environment asks for, or nil if it does not
// ask for any: an endpoint must be named, since few clusters run a collector beside each
// program. All else is as the SDK reads its own variables. It sends nothing yet.
func New(ctx context.Context, o Options) (*Exporter, error) {
	endpoint := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || exporter == "none" || exporter == "" && endpoint == "" {
		return nil, nil
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if exporter != "" && exporter != "otlp" || protocol != "http/protobuf" {
		return nil, errors.New("traces are exported by OTLP over http/protobuf alone: set OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL to that, or not at all")
	}
	// The environment comes last: it may name the service otherwise.
	identity, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tributary"), attribute.String("service.version", o.Version)), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not a list of attributes: write name=value, separated by commas")
	}
	// What the libraries say on their own may hold the address and the headers of a request, which may be
	// secret: only that something fails is told.
	otel.SetLogger(logr.Discard())
	seldom := rate.Sometimes{Interval: complaints}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		seldom.Do(func() { o.Logger.Warn("exporting traces fails, spans are left out") })
	}))
	sink, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, errors.New("the export of traces cannot be set up: look at OpenTelemetry's variables for endpoint, certificates and headers")
	}
	o.Logger.Info("exporting changes as traces")
	return newExporter(o, sdktrace.WithResource(identity), sdktrace.WithBatcher(sink, sdktrace.WithBlocking(), sdktrace.WithBatchTimeout(time.Second))), nil
}

// newExporter joins the ring to what takes the spans.
func newExporter(o Options, more ...sdktrace.TracerProviderOption) *Exporter {
	e := &Exporter{changes: o.Changes, provider: sdktrace.NewTracerProvider(append(more, sdktrace.WithIDGenerator(recordIDs{}))...)}
	e.tracer = e.provider.Tracer("tributary.dev/tributary/metrics/otlp", trace.WithInstrumentationVersion(o.Version))
	return e
}

// Run exports until ctx is done, then sends what is left, for two seconds at
// most, and returns. To have the last changes too, end ctx after the last one
// was reported. Call it once.
func (e *Exporter) Run(ctx context.Context) {
	if e == nil {
		return
	}
	for ctx.Err() == nil {
		added := e.changes.Watch()
		e.emit()
		select {
		case <-added:
		case <-ctx.Done():
		}
	}
	e.emit()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	_ = e.provider.Shutdown(ending) // what could not be sent is lost
}

// emit makes the spans of what the ring holds, oldest first.
func (e *Exporter) emit() {
	for {
		records, missed := e.changes.After(e.after, page)
		e.after += missed
		for _, rec := range records {
			emit(e.tracer, rec)
			e.after = rec.Seq
		}
		if len(records) < page {
			return
		}
	}
}
