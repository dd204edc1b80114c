// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Bounds of what is logged of changes that were not written: a burst, and what
// may follow it in a second. A Service that somebody edits all day, an ingress
// cluster that refuses everything or a member in panic must not fill a disk.
const (
	journalBurst = 500
	journalRate  = 20
)

// journal writes change records to the log. Every written one is a line: there
// are never more of them than writes. The others share a bucket; what finds it
// empty is counted, and told in one line once there is room again.
type journal struct {
	logger *slog.Logger

	mu      sync.Mutex
	room    float64
	at      time.Time
	leftOut uint64
}

func newJournal(logger *slog.Logger) *journal {
	return &journal{logger: logger, room: journalBurst}
}

// write logs the record, or counts it as left out.
func (j *journal) write(rec *Record) {
	if j.logger == nil {
		return
	}
	if rec.Result != Written {
		room, leftOut := j.admit(rec.Time)
		if !room {
			return
		}
		if leftOut > 0 {
			j.logger.Info("changes that were not written came too fast to be logged one by one; /debug/changes has them",
				"left_out", leftOut)
		}
	}
	rec.Log(context.Background(), j.logger)
}

// admit takes one line's room at the given time, and returns how many records
// were left out since the last that was admitted.
func (j *journal) admit(now time.Time) (room bool, leftOut uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if passed := now.Sub(j.at); passed > 0 {
		if !j.at.IsZero() {
			j.room = min(journalBurst, j.room+passed.Seconds()*journalRate)
		}
		j.at = now
	}
	// Once empty, the bucket is filled for a second before it is drawn from again, so
	// that what was left out is not told line by line.
	if j.room < 1 || j.leftOut > 0 && j.room < journalRate {
		j.leftOut++
		return false, 0
	}
	j.room--
	leftOut, j.leftOut = j.leftOut, 0
	return true, leftOut
}
