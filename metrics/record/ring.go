// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/time/rate"
)

// defaultRecords is how many records a Ring holds by default, defaultBytes how many bytes of them.
const defaultRecords, defaultBytes = 10_000, 32 << 20

// Ring stores the last change records, bounded in number and in bytes. All
// methods are safe for concurrent use; records handed out are read-only.
//
// Followers hold a position, not a buffer: one that reads slowly costs nothing,
// falls behind the oldest record stored, and then learns how many it missed.
type Ring struct {
	maxRecords int
	maxBytes   int

	mu sync.RWMutex
	// records have the oldest first, and bytes is their size. They have the numbers up to last.
	records []*Change
	bytes   int
	last    uint64
	// wake is closed when a record is added; nil while nobody waits.
	wake chan struct{}
}

// NewRing returns a ring that stores at most so many records and about so many
// bytes of them; 0 means 10,000 records and 32 MiB. The newest record is stored
// whatever its size.
func NewRing(records, bytes int) *Ring {
	return &Ring{maxRecords: cmp.Or(records, defaultRecords), maxBytes: cmp.Or(bytes, defaultBytes)}
}

// Add numbers the record, stores it and wakes the followers. The ring owns the
// record from then on.
func (r *Ring) Add(rec *Change) (seq uint64) {
	size := rec.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	rec.Seq = r.last
	for len(r.records) > 0 && (len(r.records) == r.maxRecords || r.bytes+size > r.maxBytes) {
		r.bytes -= r.records[0].size()
		r.records[0] = nil // append copies what is left to a new array now and then
		r.records = r.records[1:]
	}
	r.records = append(r.records, rec)
	r.bytes += size
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
	return rec.Seq
}

// After returns the records with a Seq greater than after, oldest first, at
// most limit of them (0: all), and how many such records it has no more.
func (r *Ring) After(after uint64, limit int) (records []*Change, missed uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if after >= r.last {
		return nil, 0
	}
	before := r.last - uint64(len(r.records))
	if after < before {
		missed, after = before-after, before
	}
	records = r.records[after-before:]
	if limit > 0 {
		records = records[:min(len(records), limit)]
	}
	return slices.Clone(records), missed
}

// All returns the records, oldest first.
func (r *Ring) All() []*Change {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.records)
}

// Watch returns a channel that is closed when a record is added. A follower takes it before it asks for what it lacks.
func (r *Ring) Watch() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}

// size estimates the heap that a record holds. Strings that its cause shares with the
// store count too: they may be the last reference.
func (r *Change) size() int {
	const fixed, perString = 640, 16
	size := fixed + len(r.Error) + len(r.Cause.Name) + len(r.Cause.UID) + len(r.Cause.IP)
	for _, list := range [...][]string{r.Added, r.Removed, r.Readied, r.Unreadied} {
		for _, s := range list {
			size += perString + len(s)
		}
	}
	return size
}

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
