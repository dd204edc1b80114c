// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"tributary.dev/tributary/metrics/record"
)

const (
	// maxAddresses bounds each list of addresses in a span.
	maxAddresses = 32
	// maxText bounds text that a cluster chose, maxError an error.
	maxText, maxError = 256, 1024
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
