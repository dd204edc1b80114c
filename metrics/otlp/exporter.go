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

	"tributary.dev/tributary/metrics"
)

const (
	// batch is how many changes are sent at a time: some 300 spans, below the 4 MiB
	// that a gRPC server takes by default even when all are as large as they can be.
	batch = 50
	// settle is how long records gather before they are sent, and how long a
	// change waits for its echo: longer than our own watch ever needs.
	settle = time.Second
	// pause is the time between two attempts to send a batch.
	pause = 5 * time.Second
	// attempts is how often a batch is sent before it is given up: what comes after
	// it may fare better.
	attempts = 5
	// grace is how long Run may take to send the rest once it has to end.
	grace = 2 * time.Second
)

// Options say what is exported.
type Options struct {
	// Changes is where the records come from.
	Changes *metrics.Ring
	// Version becomes the attribute service.version.
	Version string
	// Logger is told when exporting begins to fail and when it works again.
	Logger *slog.Logger
}

// Exporter sends change records as traces. A nil Exporter is valid and sends
// nothing.
type Exporter struct {
	changes *metrics.Ring
	logger  *slog.Logger
	tracer  trace.Tracer
	sink    sdktrace.SpanExporter
	ended   ended

	// after is the number of the last record that was sent or given up.
	after uint64
	// pending are the spans of the records after that one, up to through, which
	// were not taken yet. They are kept, so that each attempt sends the same: a
	// collector that took them in spite of an error can tell.
	pending []sdktrace.ReadOnlySpan
	through uint64

	// answered is how the collector answered last; losing, whether the ring moves on
	// too fast. lost counts the changes left out, and rejected the spans, since
	// either was not as it should be.
	answered       verdict
	losing         bool
	lost, rejected uint64
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
	e := &Exporter{changes: o.Changes, logger: o.Logger}
	if e.sink, err = newSink(ctx, protocol); err != nil {
		return nil, fmt.Errorf("set up OTLP over %s: %w", protocol, err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(identity), sdktrace.WithSpanProcessor(&e.ended))
	e.tracer = provider.Tracer("tributary.dev/tributary/metrics/otlp", trace.WithInstrumentationVersion(o.Version))
	o.Logger.Info("exporting changes as traces", "protocol", protocol)
	return e, nil
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
	// A request in flight when ctx ends may be taken already: it has the grace too.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()

	for e.changes.Wait(ctx, e.after) == nil && sleep(ctx, settle) {
		e.drain(ctx, sending)
	}
	e.drain(ctx, sending)
	// Lets go of the connections; there is nothing left to send, or no time.
	_ = e.sink.Shutdown(sending)
}

// drain sends what the ring holds, oldest first: up to the first change that
// should still get its echo, or all once ctx has ended.
func (e *Exporter) drain(ctx, sending context.Context) {
	final := ctx.Err() != nil
	if len(e.pending) > 0 && !e.send(ctx, sending) {
		return
	}
	complete := true
	for {
		records, missed := e.changes.After(e.after, batch)
		e.after += missed
		e.lose(missed)
		complete = complete && missed == 0
		full := len(records) == batch
		if !full && !final {
			records = records[:settled(records, time.Now())]
		}
		for _, rec := range records {
			emit(e.tracer, rec)
			e.through = rec.Seq
		}
		e.pending = e.ended.take()
		if len(records) > 0 && !e.send(ctx, sending) {
			return
		}
		if !full {
			e.keepsUp(complete)
			return
		}
	}
}

// settled counts the records, from the first on, that will not change any more.
func settled(records []*metrics.Record, now time.Time) int {
	for i, rec := range records {
		if rec.Result == metrics.Written && rec.Stages.Echo == 0 && now.Sub(rec.Time) < settle {
			return i
		}
	}
	return len(records)
}

// send sends the pending spans until the collector took them or they are given
// up. It returns false when ctx ended and the collector did not take them.
func (e *Exporter) send(ctx, sending context.Context) bool {
	for attempt := 1; len(e.pending) > 0; attempt++ {
		err := e.sink.ExportSpans(sending, e.pending)
		answer, rejected := judge(err)
		if answer == partly {
			e.rejected += uint64(min(max(0, rejected), int64(len(e.pending))))
		}
		e.heard(answer, err)
		if answer.accepts() {
			break
		}
		if answer == refused || attempt == attempts {
			e.lose(e.through - e.after)
			if answer == refused {
				// What refuses one batch will most likely refuse the next: the ring
				// keeps them for as long as it can.
				sleep(ctx, pause)
			}
			break
		}
		if !sleep(ctx, pause) {
			return false
		}
	}
	e.after, e.pending = e.through, nil
	return true
}

// heard tells the log when the collector answers in another way than before, and
// nothing in between.
func (e *Exporter) heard(answer verdict, err error) {
	if answer == e.answered {
		return
	}
	e.answered = answer
	switch answer {
	case taken:
		e.logger.Info("exporting traces works again", "lost_changes", e.lost, "rejected_spans", e.rejected)
		e.losing, e.lost, e.rejected = false, 0, 0
	case partly:
		e.logger.Warn("the collector takes traces with a complaint", "rejected_spans", e.rejected, "error", text(err.Error(), maxError))
	case away:
		e.logger.Warn("exporting traces fails, changes are kept for a while and sent when it works again", "error", text(err.Error(), maxError))
	case refused:
		e.logger.Warn("the collector refuses traces, changes are left out", "error", text(err.Error(), maxError))
	}
}

// lose counts changes that no trace will tell of.
func (e *Exporter) lose(n uint64) {
	if n == 0 {
		return
	}
	if !e.losing && e.answered.accepts() {
		e.losing = true
		e.logger.Warn("changes come faster than their traces can be exported, some are left out")
	}
	e.lost += n
}

// keepsUp ends a round that sent all there was; complete is whether none had
// been lost before it was read.
func (e *Exporter) keepsUp(complete bool) {
	if complete && e.losing && e.answered.accepts() {
		e.logger.Info("exporting traces keeps up again", "lost_changes", e.lost)
		e.losing, e.lost = false, 0
	}
}

// sleep waits; it returns false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended gathers spans as they end. Only the goroutine of Run makes spans.
type ended struct{ spans []sdktrace.ReadOnlySpan }

var _ sdktrace.SpanProcessor = (*ended)(nil)

// OnStart implements sdktrace.SpanProcessor.
func (*ended) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (p *ended) OnEnd(s sdktrace.ReadOnlySpan) { p.spans = append(p.spans, s) }

// Shutdown implements sdktrace.SpanProcessor.
func (*ended) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (*ended) ForceFlush(context.Context) error { return nil }

// take returns the spans gathered and forgets them.
func (p *ended) take() []sdktrace.ReadOnlySpan {
	out := p.spans
	p.spans = nil
	return out
}
