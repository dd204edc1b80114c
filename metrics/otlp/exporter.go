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
)

const (
	// grace is how long Shutdown may take to send the rest.
	grace = 2 * time.Second
	// complaints is how often the log hears at most that exporting fails.
	complaints = time.Minute
)

// Exporter sends change records as traces. A nil Exporter is valid and sends nothing.
type Exporter struct {
	tracer trace.Tracer
	// provider batches the spans and sends them. What finds its queue full is left out.
	provider *sdktrace.TracerProvider
}

// New returns the exporter that the environment asks for, or nil if it does not
// ask for any: an endpoint must be named, since few clusters run a collector beside each
// program. All else is as the SDK reads its own variables. It sends nothing yet.
// version becomes the attribute service.version; logger is told, once a minute at most, that exporting fails.
func New(ctx context.Context, version string, logger *slog.Logger) (*Exporter, error) {
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
		resource.WithAttributes(attribute.String("service.name", "tributary"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not a list of attributes: write name=value, separated by commas")
	}
	// What the libraries say on their own may hold the address and the headers of a request, which may be
	// secret: only that something fails is told.
	otel.SetLogger(logr.Discard())
	seldom := rate.Sometimes{Interval: complaints}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {
		seldom.Do(func() { logger.Warn("exporting traces fails, spans are left out") })
	}))
	sink, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, errors.New("the export of traces cannot be set up: look at OpenTelemetry's variables for endpoint, certificates and headers")
	}
	logger.Info("exporting changes as traces")
	return newExporter(version, sdktrace.WithResource(identity), sdktrace.WithBatcher(sink, sdktrace.WithBatchTimeout(time.Second))), nil
}

// newExporter joins the records to what takes the spans.
func newExporter(version string, more ...sdktrace.TracerProviderOption) *Exporter {
	provider := sdktrace.NewTracerProvider(append(more, sdktrace.WithIDGenerator(recordIDs{}))...)
	return &Exporter{provider.Tracer("tributary.dev/tributary/metrics/otlp", trace.WithInstrumentationVersion(version)), provider}
}

// Shutdown sends what is left, for two seconds at most; the rest is lost.
func (e *Exporter) Shutdown() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = e.provider.Shutdown(ctx)
}
