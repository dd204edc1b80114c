// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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

// EchoPatience is how long the line of a written change waits for our own watch to
// have shown the writes, which it nearly always has within milliseconds, so that
// the line has every step. It is late by no more than twice that. Followers wait as
// long.
const EchoPatience = 500 * time.Millisecond

// EndOfTime is later than every record.
var EndOfTime = time.Unix(1<<40, 0)

// journal writes change records to the log. Every written one is a line: there
// are never more of them than writes. The others share a bucket; what finds it
// empty is counted, and told in one line once there is room again.
type journal struct {
	logger *slog.Logger

	mu      sync.Mutex
	room    float64
	at      time.Time
	leftOut uint64
	// waiting are written changes by number, whose echo is awaited; sweeping is true
	// while a timer looks for those that waited for too long.
	waiting  map[uint64]*Change
	sweeping bool
}

func newJournal(logger *slog.Logger) *journal {
	return &journal{logger: logger, room: journalBurst, waiting: map[uint64]*Change{}}
}

// write logs the record, or counts it as left out, or has it wait for its echo.
func (j *journal) write(rec *Change) {
	switch {
	case j.logger == nil:
		return
	case rec.Result == Written && rec.Writes > 0:
		j.await(rec)
		return
	case rec.Result != Written:
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

func (j *journal) await(rec *Change) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waiting[rec.Seq] = rec
	if !j.sweeping {
		j.sweeping = true
		time.AfterFunc(EchoPatience, j.sweep)
	}
}

// echoed logs the record that waits under the number, with the time that its echo
// took; 0 if there will be none.
func (j *journal) echoed(seq uint64, took time.Duration) {
	j.mu.Lock()
	rec := j.waiting[seq]
	delete(j.waiting, seq)
	j.mu.Unlock()
	if rec == nil {
		return
	}
	stamped := *rec // readers have the record
	stamped.Stages.Echo = took
	stamped.Log(context.Background(), j.logger)
}

// sweep logs what has waited for long enough, and looks again as long as
// something waits.
func (j *journal) sweep() {
	j.tell(time.Now().Add(-EchoPatience))
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.sweeping = len(j.waiting) > 0; j.sweeping {
		time.AfterFunc(EchoPatience, j.sweep)
	}
}

// tell logs, as they are, the waiting records that ended before a time, in order.
func (j *journal) tell(before time.Time) {
	var late []*Change
	j.mu.Lock()
	for seq, rec := range j.waiting {
		if rec.Time.Before(before) {
			late = append(late, rec)
			delete(j.waiting, seq)
		}
	}
	j.mu.Unlock()
	slices.SortFunc(late, func(a, b *Change) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, rec := range late {
		rec.Log(context.Background(), j.logger)
	}
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
