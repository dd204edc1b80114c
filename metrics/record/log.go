// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"encoding/json"
	"log/slog"
)

// Log writes the record as one line, at info whatever its result. The line's
// time is the record's, so a JSON log holds the same object as /debug/changes
// plus level and msg.
func (r *Change) Log(ctx context.Context, logger *slog.Logger) {
	handler := logger.Handler()
	if !handler.Enabled(ctx, slog.LevelInfo) {
		return
	}
	line := slog.NewRecord(r.Time, slog.LevelInfo, "change", 0)
	line.AddAttrs(r.attrs()...)
	// A log that cannot be written has nowhere to say so.
	_ = handler.Handle(ctx, line)
}

// LogValue makes slog.Any("", record) add the record's fields to a line.
func (r *Change) LogValue() slog.Value { return slog.GroupValue(r.attrs()...) }

// attrs are the fields of the record in the order of the contract, without its time.
func (r *Change) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 19)
	attrs = append(attrs,
		slog.Uint64("seq", r.Seq),
		slog.String("cluster", r.Cluster),
		slog.String("namespace", r.Namespace),
		slog.String("service", r.Service),
	)
	if r.TraceID != "" {
		attrs = append(attrs, slog.String("trace_id", r.TraceID))
	}
	if r.Lane != "" {
		attrs = append(attrs, slog.String("lane", r.Lane))
	}
	if rule := r.rule(); rule != "" {
		attrs = append(attrs, slog.String("rule", rule))
	}
	attrs = append(attrs, slog.Any("cause", &r.Cause))
	if len(r.Causes) > 0 {
		attrs = append(attrs, slog.Any("causes", causeList(r.Causes)))
	}
	if r.CausesDropped > 0 {
		attrs = append(attrs, slog.Int("causes_dropped", r.CausesDropped))
	}
	attrs = append(attrs,
		list("added", r.Added), list("removed", r.Removed),
		list("readied", r.Readied), list("unreadied", r.Unreadied),
		slog.Any("stages_ms", &r.Stages),
		slog.Int("writes", r.Writes),
	)
	if r.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", r.Attempt))
	}
	return append(attrs, slog.String("result", string(r.Result)), slog.String("error", r.Error))
}

// causeList renders causes as one text in a text log, and as a list in JSON.
type causeList []Cause

// MarshalText implements encoding.TextMarshaler.
func (l causeList) MarshalText() ([]byte, error) {
	var b []byte
	for i := range l {
		if i > 0 {
			b = append(b, "; "...)
		}
		b = l[i].appendText(b)
	}
	return b, nil
}

// MarshalJSON implements json.Marshaler.
func (l causeList) MarshalJSON() ([]byte, error) { return json.Marshal([]Cause(l)) }

// list keeps an empty list from being written as null.
func list(key string, values []string) slog.Attr {
	if values == nil {
		values = []string{}
	}
	return slog.Any(key, values)
}

// LogValue renders the stages as a group, in milliseconds.
func (s Stages) LogValue() slog.Value {
	attrs := make([]slog.Attr, 0, 7)
	for _, part := range s.parts() {
		if *part.took > 0 || !part.optional {
			attrs = append(attrs, slog.Float64(part.name, millis(*part.took)))
		}
	}
	return slog.GroupValue(attrs...)
}
