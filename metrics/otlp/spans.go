// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"tributary.dev/tributary/metrics/record"
)

const (
	// maxAddresses bounds each list of addresses in a span; the counts are exact.
	maxAddresses = 32
	// maxText bounds text that a cluster chose.
	maxText = 256
	// maxError bounds an error.
	maxError = 1024
)

// emit makes the spans of a record: one for the change, from the arrival of the
// event to the last acknowledgement, and within it one for each step. Events
// are the other causes, each at its own time.
//
// All times are the arrival's plus what the monotonic clock measured, so that a
// step of the wall clock bends no span.
func emit(tracer trace.Tracer, rec *record.Change) {
	start := rec.Cause.Arrival
	if start.IsZero() {
		start = rec.Time.Add(-rec.Stages.Total)
	}
	ctx, span := tracer.Start(context.WithValue(context.Background(), traceIDKey{}, rec.TraceID), "change",
		trace.WithNewRoot(), trace.WithTimestamp(start), trace.WithAttributes(attributes(rec)...))
	if !span.IsRecording() {
		return
	}
	for i := range rec.Causes {
		cause := &rec.Causes[i]
		at := cause.Arrival
		if at.IsZero() {
			at = start
		}
		span.AddEvent("cause", trace.WithTimestamp(at), trace.WithAttributes(causeAttributes(nil, cause)...))
	}
	if rec.Result == record.Failed {
		span.SetStatus(codes.Error, text(rec.Error, maxError))
	}
	for _, s := range steps(&rec.Stages) {
		_, step := tracer.Start(ctx, s.name, trace.WithTimestamp(start.Add(s.from)))
		step.End(trace.WithTimestamp(start.Add(s.to)))
	}
	span.End(trace.WithTimestamp(start.Add(rec.Stages.Total)))
}

// step is one part of a change, in time since the arrival of the event.
type step struct {
	name     string
	from, to time.Duration
}

// steps lays the stages out in time. A record has the length of each write, not
// its beginning; that follows from the order of writing: the Service first, then
// slices and Endpoints, one after the other where both fit into the time that
// is left, else side by side.
func steps(s *record.Stages) []step {
	computed := s.Queue + s.Compute
	out := make([]step, 0, 6)
	out = append(out, step{"queue", 0, s.Queue}, step{"compute", s.Queue, computed})
	begin := computed
	if s.WriteService > 0 {
		begin += s.WriteService
		out = append(out, step{"write_service", computed, begin})
	}
	if s.WriteSlices > 0 {
		out = append(out, step{"write_slices", begin, begin + s.WriteSlices})
	}
	if s.WriteEndpoints > 0 {
		if begin+s.WriteSlices+s.WriteEndpoints <= s.Total {
			begin += s.WriteSlices
		}
		out = append(out, step{"write_endpoints", begin, begin + s.WriteEndpoints})
	}
	if s.Echo > 0 {
		out = append(out, step{"echo", min(computed, s.Echo), s.Echo})
	}
	return out
}

// attributes describe a change. Names follow OpenTelemetry's conventions where
// there are any.
func attributes(rec *record.Change) []attribute.KeyValue {
	out := make([]attribute.KeyValue, 0, 28)
	out = append(out,
		attribute.Int64("tributary.change.seq", int64(rec.Seq)),
		attribute.String("k8s.namespace.name", text(rec.Namespace, maxText)),
		attribute.String("k8s.service.name", text(rec.Service, maxText)),
		attribute.String("tributary.change.result", string(rec.Result)),
		attribute.Int("tributary.change.writes", rec.Writes),
		attribute.Int("tributary.change.causes", 1+len(rec.Causes)+rec.CausesDropped),
	)
	if rec.Attempt > 0 {
		out = append(out, attribute.Int("tributary.change.attempt", rec.Attempt))
	}
	if rec.Error != "" {
		out = append(out, attribute.String("tributary.change.error", text(rec.Error, maxError)))
	}
	out = given(out, "k8s.cluster.name", rec.Cluster, "tributary.change.lane", rec.Lane)
	for _, l := range []struct {
		name string
		list []string
	}{{"added", rec.Added}, {"removed", rec.Removed}, {"readied", rec.Readied}, {"unreadied", rec.Unreadied}} {
		out = append(out, attribute.Int("tributary.change."+l.name+".count", len(l.list)))
		if len(l.list) > 0 {
			out = append(out, attribute.StringSlice("tributary.change."+l.name, bounded(l.list)))
		}
	}
	return causeAttributes(out, &rec.Cause)
}

func causeAttributes(out []attribute.KeyValue, c *record.Cause) []attribute.KeyValue {
	out = append(out,
		attribute.String("tributary.cause.kind", text(c.Kind, maxText)),
		attribute.String("tributary.cause.event", text(c.Event, maxText)),
		attribute.Bool("tributary.cause.live", c.Live),
	)
	return given(out, "tributary.cause.cluster", c.Cluster, "tributary.cause.namespace", c.Namespace, "tributary.cause.name", c.Name,
		"tributary.cause.uid", c.UID, "tributary.cause.resource_version", c.ResourceVersion, "tributary.cause.state", c.State, "tributary.cause.ip", c.IP)
}

// given adds those of pairs of a name and a value that have a value.
func given(out []attribute.KeyValue, pairs ...string) []attribute.KeyValue {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			out = append(out, attribute.String(pair[0], text(pair[1], maxText)))
		}
	}
	return out
}

func bounded(list []string) []string {
	out := make([]string, min(len(list), maxAddresses))
	for i := range out {
		out[i] = text(list[i], maxText)
	}
	return out
}

// text bounds what a cluster chose, and makes it valid UTF-8: protobuf refuses
// anything else, and with it the whole batch.
func text(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
