// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"log/slog"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// delivery is the sink as the batch processor sees it. The log learns once that
// sending fails and once that it works again; what was lost meanwhile is counted.
type delivery struct {
	sdktrace.SpanExporter
	logger *slog.Logger
	// aborted ends every request, those to come included.
	aborted context.Context
	abort   context.CancelFunc

	mu sync.Mutex
	// failing is true since a request failed or the ring was overrun.
	failing bool
	// spans and changes were left out since: by requests that failed in spite of the
	// library's retries, and because they left the ring unread.
	spans   int
	changes uint64
}

var _ sdktrace.SpanExporter = (*delivery)(nil)

func newDelivery(sink sdktrace.SpanExporter, logger *slog.Logger) *delivery {
	d := &delivery{SpanExporter: sink, logger: logger}
	d.aborted, d.abort = context.WithCancel(context.Background())
	return d
}

// ExportSpans implements sdktrace.SpanExporter. Errors end here: the SDK would only
// hand each of them to the log.
func (d *delivery) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.aborted, cancel)()
	err := d.SpanExporter.ExportSpans(ctx, spans)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		d.fails("exporting traces fails, spans are left out", "error", text(err.Error(), maxError))
		d.spans += len(spans)
	case d.failing:
		d.logger.Info("exporting traces works again", "lost_spans", d.spans, "lost_changes", d.changes)
		d.failing, d.spans, d.changes = false, 0, 0
	}
	return nil
}

// missed notes changes that left the ring before their spans were made.
func (d *delivery) missed(changes uint64) {
	if changes == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails("changes come faster than their traces can be exported, some are left out")
	d.changes += changes
}

// fails logs the first of a row of failures. The caller holds mu.
func (d *delivery) fails(message string, args ...any) {
	if !d.failing {
		d.failing = true
		d.logger.Warn(message, args...)
	}
}
