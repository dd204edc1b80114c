// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Bounds of what is logged of changes that were not written: a burst, and what
// may follow it in a second. A Service that somebody edits all day or an ingress
// cluster that refuses everything must not fill a disk.
const (
	logBurst = 500
	logRate  = 20
)

// Log writes change records as lines, at info whatever their result. Every written one
// is a line: there are never more of them than writes. The others share a limit; what
// finds it used up is counted, and told with the next one that is logged. Its methods
// are safe for concurrent use.
type Log struct {
	logger  *slog.Logger
	limit   *rate.Limiter
	leftOut atomic.Uint64
}

// NewLog returns a Log; no logger, no lines.
func NewLog(logger *slog.Logger) *Log {
	return &Log{logger: logger, limit: rate.NewLimiter(logRate, logBurst)}
}

// Write logs the record. The line's time is the record's, so a JSON log holds the same
// object as /debug/changes plus level and msg.
func (l *Log) Write(r *Change) {
	if l.logger == nil || !l.logger.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	if r.Result != Written {
		if !l.limit.AllowN(r.Time, 1) {
			l.leftOut.Add(1)
			return
		}
		if n := l.leftOut.Swap(0); n > 0 {
			l.logger.Info("changes that were not written came too fast to be logged one by one; /debug/changes has them", "left_out", n)
		}
	}
	line := slog.NewRecord(r.Time, slog.LevelInfo, "change", 0)
	line.AddAttrs(r.attrs()...)
	// A log that cannot be written has nowhere to say so.
	_ = l.logger.Handler().Handle(context.Background(), line)
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
