// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"tributary.dev/tributary/metrics/record"
)

const (
	// grace is how long Shutdown may take to send the rest.
	grace = 2 * time.Second
	// complaints is how often at most it is logged that exporting fails.
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
// version becomes the attribute service.version; logger gets, once a minute at most, that exporting fails.
func New(ctx context.Context, version string, logger *slog.Logger) (*Exporter, error) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") + os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if endpoint == "" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" || os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, nil
	}
	// The environment comes last: it may name the service otherwise.
	identity, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tributary"), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not a list of attributes: write name=value, separated by commas")
	}
	// What the libraries say on their own may hold the address and the headers of a request, which may be
	// secret: only that something fails is logged.
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

const (
	// maxAddresses bounds each list of addresses in a span.
	maxAddresses = 32
	// maxText bounds text that a cluster chose, maxError an error.
	maxText, maxError = 256, 1024
)

// traceIDKey is where the context of a root span has its record's TraceID.
type traceIDKey struct{}

// recordIDs sets the identifier of a trace to its record's, so that an exemplar of a
// latency leads to it.
type recordIDs struct{}

var _ sdktrace.IDGenerator = recordIDs{}

// NewIDs implements sdktrace.IDGenerator.
func (g recordIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	text, _ := ctx.Value(traceIDKey{}).(string)
	id, _ := trace.TraceIDFromHex(text)
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (recordIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// Export makes the spans of a record: one for the change, from the arrival of the event to the
// last acknowledgement, and within it one for each step. It waits for nobody.
//
// All times are the arrival's plus what the monotonic clock measured, so that a
// step of the wall clock bends no span.
func (e *Exporter) Export(rec *record.Change) {
	if e == nil {
		return
	}
	start := rec.Cause.Arrival
	ctx, span := e.tracer.Start(context.WithValue(context.Background(), traceIDKey{}, rec.TraceID), "change",
		trace.WithNewRoot(), trace.WithTimestamp(start), trace.WithAttributes(attributes(rec)...))
	if rec.Result == record.Failed {
		span.SetStatus(codes.Error, text(rec.Error, maxError))
	}
	s := &rec.Stages
	computed := s.Queue + s.Compute
	for _, step := range []struct {
		name     string
		from, to time.Duration
	}{
		{"queue", 0, s.Queue}, {"compute", s.Queue, computed},
		{"write_slices", computed, computed + s.WriteSlices}, {"write_endpoints", computed, computed + s.WriteEndpoints},
	} {
		if step.to > step.from {
			_, part := e.tracer.Start(ctx, step.name, trace.WithTimestamp(start.Add(step.from)))
			part.End(trace.WithTimestamp(start.Add(step.to)))
		}
	}
	span.End(trace.WithTimestamp(start.Add(s.Total)))
}

// attributes describe a change: what one looks for a trace by. Names follow OpenTelemetry's conventions where there are any.
func attributes(rec *record.Change) []attribute.KeyValue {
	out := []attribute.KeyValue{attribute.Int64("tributary.change.seq", int64(rec.Seq)), attribute.Bool("tributary.cause.live", rec.Cause.Live)}
	for pair := range slices.Chunk([]string{
		"k8s.namespace.name", rec.Namespace, "k8s.service.name", rec.Service, "k8s.cluster.name", rec.Cluster,
		"tributary.change.result", string(rec.Result), "tributary.change.lane", rec.Lane, "tributary.change.error", rec.Error,
		"tributary.cause", rec.Cause.String(), "tributary.cause.uid", rec.Cause.UID, "tributary.cause.ip", rec.Cause.IP,
	}, 2) {
		if pair[1] != "" {
			out = append(out, attribute.String(pair[0], text(pair[1], maxText)))
		}
	}
	for name, list := range map[string][]string{"added": rec.Added, "removed": rec.Removed, "readied": rec.Readied, "unreadied": rec.Unreadied} {
		if len(list) > 0 {
			out = append(out, attribute.StringSlice("tributary.change."+name, list[:min(len(list), maxAddresses)]))
		}
	}
	return out
}

// text bounds what a cluster chose, and makes it valid UTF-8: protobuf refuses
// anything else, and with it the whole batch.
func text(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "\ufffd")
}
