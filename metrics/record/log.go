// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"log/slog"

	"golang.org/x/time/rate"
)

// What is logged of changes that were not written: a burst, and what may follow it in a second. A Service that somebody
// edits all day, or an ingress cluster that refuses everything, must not fill a disk.
const logBurst, logRate = 500, 20

// Log writes change records as lines, at info whatever their result. Every written one is a line: there are never more of
// them than writes. The others share a limit: a gap in the numbers (seq) is what it left out, and /debug/changes has it.
// Its methods are safe for concurrent use.
type Log struct {
	logger *slog.Logger
	limit  *rate.Limiter
}

// NewLog returns a Log; no logger, no lines.
func NewLog(logger *slog.Logger) *Log {
	return &Log{logger, rate.NewLimiter(logRate, logBurst)}
}

// Write logs the record. The line's time is the record's, so a JSON log holds the same
// object as /debug/changes plus level and msg.
func (l *Log) Write(r *Change) {
	if l.logger == nil || r.Result != Written && !l.limit.AllowN(r.Time, 1) {
		return
	}
	line := slog.NewRecord(r.Time, slog.LevelInfo, "change", 0)
	line.AddAttrs(
		slog.Uint64("seq", r.Seq), slog.String("cluster", r.Cluster), slog.String("namespace", r.Namespace), slog.String("service", r.Service),
		slog.String("trace_id", r.TraceID), slog.String("lane", r.Lane), slog.Any("cause", r.Cause), slog.Int("causes", r.Causes),
		slog.Any("added", r.Added), slog.Any("removed", r.Removed), slog.Any("readied", r.Readied), slog.Any("unreadied", r.Unreadied),
		slog.Any("stages_ms", r.Stages), slog.Int("writes", r.Writes), slog.Int("attempt", r.Attempt),
		slog.String("result", string(r.Result)), slog.String("error", r.Error))
	if handler := l.logger.Handler(); handler.Enabled(context.Background(), slog.LevelInfo) {
		_ = handler.Handle(context.Background(), line) // a log that cannot be written has nowhere to say so
	}
}
