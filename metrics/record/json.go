// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"log/slog"
	"time"
)

// MarshalJSON renders the cause as an object, although it has a form as text.
func (c Cause) MarshalJSON() ([]byte, error) {
	type plain Cause
	return json.Marshal(plain(c))
}

// millis are the stages as they are written.
type millis struct {
	Queue          float64 `json:"queue"`
	Compute        float64 `json:"compute"`
	WriteEndpoints float64 `json:"write_endpoints"`
	WriteSlices    float64 `json:"write_slices"`
	Total          float64 `json:"total"`
}

func (s Stages) millis() millis {
	ms := func(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / float64(time.Millisecond) }
	return millis{ms(s.Queue), ms(s.Compute), ms(s.WriteEndpoints), ms(s.WriteSlices), ms(s.Total)}
}

// MarshalJSON renders the stages in milliseconds.
func (s Stages) MarshalJSON() ([]byte, error) { return json.Marshal(s.millis()) }

// UnmarshalJSON is the inverse of MarshalJSON, to the microsecond.
func (s *Stages) UnmarshalJSON(data []byte) error {
	var took millis
	if err := json.Unmarshal(data, &took); err != nil {
		return err
	}
	of := func(ms float64) time.Duration {
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond)
	}
	*s = Stages{of(took.Queue), of(took.Compute), of(took.WriteEndpoints), of(took.WriteSlices), of(took.Total)}
	return nil
}

// LogValue makes slog.Any("", record) add the record's fields to a line.
func (r *Change) LogValue() slog.Value { return slog.GroupValue(r.attrs()...) }

// LogValue renders the stages as a group, in milliseconds.
func (s Stages) LogValue() slog.Value {
	ms := s.millis()
	return slog.GroupValue(slog.Float64("queue", ms.Queue), slog.Float64("compute", ms.Compute),
		slog.Float64("write_endpoints", ms.WriteEndpoints), slog.Float64("write_slices", ms.WriteSlices), slog.Float64("total", ms.Total))
}

// attrs are the fields of the record in the order of the contract, without its time.
func (r *Change) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 17)
	attrs = append(attrs, slog.Uint64("seq", r.Seq),
		slog.String("cluster", r.Cluster), slog.String("namespace", r.Namespace), slog.String("service", r.Service))
	if r.TraceID != "" {
		attrs = append(attrs, slog.String("trace_id", r.TraceID))
	}
	if r.Lane != "" {
		attrs = append(attrs, slog.String("lane", r.Lane))
	}
	attrs = append(attrs, slog.Any("cause", r.Cause), slog.Int("causes", r.Causes),
		slog.Any("added", r.Added), slog.Any("removed", r.Removed),
		slog.Any("readied", r.Readied), slog.Any("unreadied", r.Unreadied),
		slog.Any("stages_ms", r.Stages), slog.Int("writes", r.Writes))
	if r.Attempt > 0 {
		attrs = append(attrs, slog.Int("attempt", r.Attempt))
	}
	return append(attrs, slog.String("result", string(r.Result)), slog.String("error", r.Error))
}
