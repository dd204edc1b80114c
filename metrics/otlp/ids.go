// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tributary.dev/tributary/metrics/record"
)

// traceIDKey is where the context of a root span has its record's TraceID.
type traceIDKey struct{}

// recordIDs gives a trace the identifier of its record, so that an exemplar of a
// latency leads to it.
type recordIDs struct{}

var _ sdktrace.IDGenerator = recordIDs{}

// NewIDs implements sdktrace.IDGenerator.
func (g recordIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	text, _ := ctx.Value(traceIDKey{}).(string)
	id, err := trace.TraceIDFromHex(text)
	if err != nil { // a record that was not made by Metrics.Change
		id, _ = trace.TraceIDFromHex(record.NewTraceID())
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (recordIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}
