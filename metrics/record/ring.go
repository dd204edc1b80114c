// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// DefaultRecords is how many records a Ring keeps unless it is told otherwise.
const DefaultRecords = 10_000

// defaultBytes is how many bytes of them.
const defaultBytes = 32 << 20

// Ring keeps the last change records, bounded in number and in bytes. All
// methods are safe for concurrent use; records handed out are read-only.
//
// Followers hold a position, not a buffer: one that reads slowly costs nothing,
// falls behind the oldest record kept, and then learns how many it missed.
type Ring struct {
	maxRecords int
	maxBytes   int

	mu sync.RWMutex
	// slots is a circle: count records, the oldest at head. It grows up to
	// maxRecords.
	slots []*Change
	head  int
	count int
	bytes int
	// last is the Seq of the newest record ever added; the records kept are
	// last-count+1 … last.
	last uint64
	// wake is closed when a record is added; nil while nobody waits.
	wake chan struct{}
}

// NewRing returns a ring that keeps at most so many records and about so many
// bytes of them; 0 means 10,000 records and 32 MiB. The newest record is kept
// whatever its size.
func NewRing(records, bytes int) *Ring {
	return &Ring{maxRecords: cmp.Or(records, DefaultRecords), maxBytes: cmp.Or(bytes, defaultBytes)}
}

// Add numbers the record, keeps it and wakes the followers. The ring owns the
// record from then on.
func (r *Ring) Add(rec *Change) (seq uint64) {
	size := rec.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	rec.Seq = r.last
	for r.count > 0 && (r.count == r.maxRecords || r.bytes+size > r.maxBytes) {
		r.lockedEvict()
	}
	if r.count == len(r.slots) { // a quiet process should not hold 10,000 empty slots
		r.slots = append(slices.Concat(r.slots[r.head:], r.slots[:r.head]), make([]*Change, min(r.maxRecords-r.count, max(64, r.count)))...)
		r.head = 0
	}
	r.slots[(r.head+r.count)%len(r.slots)] = rec
	r.count++
	r.bytes += size
	r.lockedWake()
	return rec.Seq
}

func (r *Ring) lockedWake() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

func (r *Ring) lockedEvict() {
	r.bytes -= r.slots[r.head].size()
	r.slots[r.head] = nil
	r.head = (r.head + 1) % len(r.slots)
	r.count--
}

// After returns the records with a Seq greater than after, oldest first, at
// most limit of them (0: all), and how many such records are no longer kept.
func (r *Ring) After(after uint64, limit int) (records []*Change, missed uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if after >= r.last {
		return nil, 0
	}
	oldest := r.last - uint64(r.count) + 1
	if after+1 < oldest {
		missed = oldest - after - 1
		after = oldest - 1
	}
	n := int(r.last - after)
	skip := r.count - n
	if limit > 0 {
		n = min(n, limit)
	}
	records = make([]*Change, n)
	for i := range records {
		records[i] = r.slots[(r.head+skip+i)%len(r.slots)]
	}
	return records, missed
}

// All returns the records kept, oldest first.
func (r *Ring) All() []*Change {
	r.mu.RLock()
	oldest := r.last - uint64(r.count)
	r.mu.RUnlock()
	records, _ := r.After(oldest, 0)
	return records
}

// Wait returns once a record with a Seq greater than after was added, or with
// ctx's error.
func (r *Ring) Wait(ctx context.Context, after uint64) error {
	for {
		r.mu.Lock()
		if r.last > after {
			r.mu.Unlock()
			return nil
		}
		wake := r.lockedWatch()
		r.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch returns a channel that is closed when a record is added.
func (r *Ring) Watch() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lockedWatch()
}

func (r *Ring) lockedWatch() <-chan struct{} {
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return r.wake
}

// Slowest returns up to n live, written records with the largest total,
// slowest first.
func (r *Ring) Slowest(n int) []*Change {
	slowest := slices.DeleteFunc(r.All(), func(rec *Change) bool {
		return !rec.Cause.Live || rec.Result != Written
	})
	slices.SortStableFunc(slowest, func(a, b *Change) int { return cmp.Compare(b.Stages.Total, a.Stages.Total) })
	return slices.Clone(slowest[:min(n, len(slowest))])
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
