// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"testing"

	"tributary.dev/tributary/syncer"
)

// TestLossOfAListOfWritten checks what a list is said to take: only what nothing
// gives in its place.
func TestLossOfAListOfWritten(t *testing.T) {
	one, two := writtenSlice("db", "db-1", false, 1, 2), writtenSlice("db", "db-2", false, 3, 4, 5)
	for name, c := range map[string]struct {
		endpoints []byte
		list      []Versioned[Slice]
		absent    []string
		lost      int
		emptied   bool
	}{
		"all is listed":           {list: []Versioned[Slice]{one, two}},
		"one is absent":           {list: []Versioned[Slice]{two}, absent: []string{"db-1"}, lost: 2},
		"nothing is listed":       {absent: []string{"db-1", "db-2"}, lost: 5, emptied: true},
		"Endpoints have the rest": {endpoints: []byte{1, 2, 9}, list: []Versioned[Slice]{two}, absent: []string{"db-1"}},
		"Endpoints have some":     {endpoints: []byte{1}, absent: []string{"db-1", "db-2"}, lost: 4},
		"another is there":        {list: []Versioned[Slice]{two, writtenSlice("db", "db-9", false, 7, 8)}, absent: []string{"db-1"}},
		"one has gone over":       {list: []Versioned[Slice]{writtenSlice("other", "db-1", false, 1, 2), two}},
		"one has fewer":           {list: []Versioned[Slice]{one, writtenSlice("db", "db-2", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serve(handMade("db"))
			e := written("db", c.endpoints...)
			w.ReplaceEndpoints(in("db"), &e, 0)
			w.ReplaceSlices(in("db"), []Versioned[Slice]{one, two, writtenSlice("db", "db-derived", true)}, 0)
			r := w.PlanReplaceSlices([]syncer.Key{in("db")}, c.list, 0)
			var absent []string
			for _, a := range r.Absent {
				absent = append(absent, a.Slice)
			}
			if !slices.Equal(absent, c.absent) || r.Impact.Lost != c.lost || (len(r.Impact.Emptied) > 0) != c.emptied || len(r.First) != 0 {
				t.Errorf("absent %q, impact %+v, first %v", absent, r.Impact, r.First)
			}
		})
	}
}

func TestAbsentSlicesAreKeptOneByOne(t *testing.T) {
	w := newWorld(t)
	w.serve(handMade("db"))
	w.ReplaceEndpoints(in("db"), nil, 10)
	w.ReplaceSlices(in("db"), []Versioned[Slice]{writtenSlice("db", "db-1", false, 1), writtenSlice("db", "db-2", false, 2)}, 10)
	r := w.PlanReplaceSlices([]syncer.Key{in("db")}, nil, 20)
	w.dirty("one is kept", r.Apply(func(a AbsentWritten) bool { return a.Slice == "db-1" }, nil), change("db", syncer.Removal))
	w.expect(in("db"), 1)
	if !w.HasSlice(in("db"), "db-1") || w.HasSlice(in("db"), "db-2") {
		t.Error("the other one is kept")
	}
	w.PlanReplaceSlices([]syncer.Key{in("db")}, []Versioned[Slice]{writtenSlice("db", "db-3", false, 3)}, 30).Refuse()
	w.expect(in("db"), 1)
}

// TestFirstListsMayBeWithheld checks that a Service whose first lists are not
// believed is pending until both kinds were read again, or somebody believes it.
func TestFirstListsMayBeWithheld(t *testing.T) {
	w := newWorld(t)
	w.serve(handMade("db"))
	keys := []syncer.Key{in("db")}
	withhold := func(FirstWritten) bool { return true }
	pending := func() bool { return w.Peek(in("db"))[0].Pending }
	if r := w.PlanReplaceSlices(keys, nil, 10); len(r.First) != 0 || len(r.Apply(nil, withhold)) != 0 {
		t.Error("half of it is taken for the whole")
	}
	few := []Versioned[Endpoints]{written("db", 1), written("other", 7)}
	r := w.PlanReplaceEndpoints(keys, few, 10)
	if want := []FirstWritten{{in("db"), in("db"), 1}}; !slices.Equal(r.First, want) || r.Ready != 1 {
		t.Errorf("first %v, %d ready", r.First, r.Ready)
	}
	w.dirty("withheld", r.Apply(nil, withhold))
	if r := w.PlanReplaceEndpoints(keys, few, 11); !pending() || len(r.First) != 0 || len(r.Apply(nil, nil)) != 0 || !pending() {
		t.Error("known without slices")
	}
	w.dirty("slices again", w.PlanReplaceSlices(keys, nil, 12).Apply(nil, withhold))
	w.dirty("by hand", w.BelieveWritten(in("db")), change("db", syncer.Addition))
	w.expect(in("db"), 1)
}
