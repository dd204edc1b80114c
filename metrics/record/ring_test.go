// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"sync"
	"testing"

	"tributary.dev/tributary/internal/dice"
)

func numbered(n int) *Change { return &Change{Service: strings.Repeat("x", n)} }

func seqs(records []*Change) (first, last uint64) {
	if len(records) == 0 {
		return 0, 0
	}
	return records[0].Seq, records[len(records)-1].Seq
}

// checkRing re-derives what a ring must hold from its own records.
func checkRing(t *testing.T, r *Ring) {
	t.Helper()
	r.mu.RLock()
	defer r.mu.RUnlock()
	bytes := 0
	for i, rec := range r.records {
		bytes += rec.size()
		if want := r.last - uint64(len(r.records)) + 1 + uint64(i); rec.Seq != want {
			t.Fatalf("place %d has record %d; want %d", i, rec.Seq, want)
		}
	}
	if bytes != r.bytes || len(r.records) > r.maxRecords || bytes > r.maxBytes && len(r.records) > 1 {
		t.Fatalf("bounds broken: %d records, %d bytes, counted %d", len(r.records), bytes, r.bytes)
	}
}

func TestRingKeepsTheNewest(t *testing.T) {
	for _, test := range []struct {
		name           string
		records, bytes int
		add            int
		size           func(i int) int
		first, last    uint64
	}{
		{"empty", 3, 0, 0, nil, 0, 0},
		{"below its bound", 3, 0, 2, nil, 1, 2},
		{"at its bound", 3, 0, 3, nil, 1, 3},
		{"beyond its bound", 3, 0, 100, nil, 98, 100},
		{"bytes", 100, 10 * numbered(0).size(), 100, nil, 91, 100},
		{"one record larger than everything", 100, 1000, 5, func(i int) int { return 10_000 }, 5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewRing(test.records, test.bytes)
			for i := range test.add {
				rec := numbered(0)
				if test.size != nil {
					rec.Error = strings.Repeat("x", test.size(i))
				}
				if seq := r.Add(rec); seq != uint64(i+1) {
					t.Fatalf("record %d got number %d", i+1, seq)
				}
				checkRing(t, r)
			}
			if first, last := seqs(r.All()); first != test.first || last != test.last {
				t.Errorf("stores %d…%d; want %d…%d", first, last, test.first, test.last)
			}
		})
	}
}

func TestRingRandomly(t *testing.T) {
	random := dice.New(t)
	r := NewRing(200, 200_000)
	for range 5_000 {
		rec := numbered(0)
		rec.Error = strings.Repeat("x", random.IntN(5_000))
		r.Add(rec)
		checkRing(t, r)
	}
}

func TestRingAfter(t *testing.T) {
	r := NewRing(10, 0)
	for range 25 {
		r.Add(numbered(0))
	}
	for _, test := range []struct {
		after               uint64
		limit               int
		first, last, missed uint64
	}{
		{0, 0, 16, 25, 15},
		{15, 0, 16, 25, 0},
		{20, 0, 21, 25, 0},
		{20, 2, 21, 22, 0},
		{3, 2, 16, 17, 12},
		{25, 0, 0, 0, 0},
		{99, 0, 0, 0, 0},
	} {
		records, missed := r.After(test.after, test.limit)
		if first, last := seqs(records); first != test.first || last != test.last || missed != test.missed {
			t.Errorf("After(%d, %d) = %d…%d, missed %d; want %d…%d, missed %d",
				test.after, test.limit, first, last, missed, test.first, test.last, test.missed)
		}
	}
}

// TestRingFollowers: while records are added, every follower sees each number
// once and in order, or is told that it missed it.
func TestRingFollowers(t *testing.T) {
	const records = 3_000
	r := NewRing(64, 0)
	var followers sync.WaitGroup
	for range 4 {
		followers.Go(func() {
			var after, missed uint64
			for after < records {
				added := r.Watch()
				got, gap := r.After(after, 16)
				if len(got) == 0 {
					<-added
				}
				after += gap
				missed += gap
				for _, rec := range got {
					if rec.Seq != after+1 {
						t.Errorf("after %d came %d", after, rec.Seq)
						return
					}
					after = rec.Seq
				}
			}
		})
	}
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range records / 3 {
				r.Add(numbered(0))
			}
		})
	}
	writers.Wait()
	followers.Wait()
	checkRing(t, r)
}
