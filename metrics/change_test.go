// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"tributary.dev/tributary/metrics/record"
)

// noon is when the records of the tests happen.
var noon = time.Date(2026, 3, 1, 13, 0, 0, 0, time.FixedZone("UTC+1", 3600))

func at(ms float64) time.Time { return noon.Add(time.Duration(ms * float64(time.Millisecond))) }

func podCause(name, event, state, ip string, arrival time.Time) record.Cause {
	c := written().Cause
	c.Name, c.UID, c.Event, c.State, c.IP, c.Arrival = name, "uid-"+name, event, state, ip, arrival
	return c
}

// of is a finished record with the result.
func of(result record.Result, at time.Time) record.Change {
	r := written()
	r.Result, r.Time = result, at
	return r
}

// written is a finished record of a removal: the first sample of package record.
func written() record.Change {
	all, err := os.ReadFile("record/testdata/records.jsonl")
	if err != nil {
		panic(err)
	}
	var r record.Change
	if err := json.Unmarshal([]byte(strings.Split(string(all), "\n")[0]), &r); err != nil {
		panic(err)
	}
	return r
}

// TestKeptChangesAreHeld: a guard that keeps an event from having an effect makes
// of "nothing to write" a change that is held, told also after a list.
func TestKeptChangesAreHeld(t *testing.T) {
	m := New(Options{})
	change := func(result record.Result, kept string, live bool) *record.Change {
		causes := []record.Cause{podCause("web-1", "modified", "not ready", "10.2.3.4", at(0)), podCause("web-2", "modified", "not ready", "10.2.3.5", at(1))}
		causes[1].Kept = kept
		for i := range causes {
			causes[i].Live = live
		}
		rec := record.Begin("shop", "web", "addition", causes, 0, at(2))
		rec.End(at(3), result, nil)
		if m.Change(rec) == 0 {
			return nil
		}
		return m.Changes().All()[len(m.Changes().All())-1]
	}
	if rec := change(record.Dropped, "mass_not_ready", true); rec.Result != record.Held ||
		rec.Error != "mass_not_ready: panic: too many pods turned not ready at once and are kept ready; to let it pass: tributary release --cluster idc-a" {
		t.Errorf("%s: %s", rec.Result, rec.Error)
	}
	if rec := change(record.Dropped, "list_shrank", false); rec == nil || rec.Result != record.Held {
		t.Errorf("what a list lacks: %+v", rec)
	}
	if rec := change(record.Written, "mass_not_ready", true); rec.Result != record.Written || rec.Error != "" {
		t.Errorf("%s: %s", rec.Result, rec.Error)
	}
	if rec := change(record.Dropped, "", false); rec != nil {
		t.Errorf("a relist is told: %+v", rec)
	}
	if n := testutil.ToFloat64(m.changes.WithLabelValues("idc-a", "held")); n != 2 {
		t.Errorf("%v held changes are counted", n)
	}
}

// TestHeldIsToldOnce: a relist that finds a replica held as before is no news.
func TestHeldIsToldOnce(t *testing.T) {
	m := New(Options{})
	pass := func(live bool, held ...HeldChange) bool {
		rec := of(record.Held, noon)
		rec.Cause.Live = live
		m.Report(rec.Namespace, rec.Service, Trouble{Held: held})
		return m.Change(rec) != 0
	}
	drain := HeldChange{Cluster: "idc-a", Reason: "drain_last_ready"}
	fight := HeldChange{Reason: "repair_fight"}
	for i, step := range []struct {
		live bool
		held []HeldChange
		told bool
	}{
		{false, []HeldChange{drain}, true},
		{false, []HeldChange{drain}, false},
		{true, []HeldChange{drain}, true},
		{false, []HeldChange{drain, fight}, true},
		{false, []HeldChange{drain, fight}, false},
		{false, []HeldChange{drain}, true},
		{false, nil, false},
		{false, []HeldChange{drain}, true},
	} {
		if told := pass(step.live, step.held...); told != step.told {
			t.Errorf("pass %d: told %v; want %v", i, told, step.told)
		}
	}
}

// TestKeepNone: with tracing turned off changes are counted, and nothing else.
func TestKeepNone(t *testing.T) {
	var out bytes.Buffer
	m := New(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	m.Changes().Keep(0)
	if seq := m.Change(written()); seq != 0 || len(m.Changes().All()) != 0 || out.Len() > 0 {
		t.Errorf("record %d, kept %d, logged %q", seq, len(m.Changes().All()), out.String())
	}
	if n := testutil.ToFloat64(m.changes.WithLabelValues("idc-a", "written")); n != 1 {
		t.Errorf("counted %v", n)
	}
}

func BenchmarkChange(b *testing.B) {
	m := New(Options{})
	m.AddCluster("idc-a")
	r := written()
	b.ReportAllocs()
	for b.Loop() {
		m.Change(r)
	}
}

func BenchmarkChangeLogged(b *testing.B) {
	m := New(Options{Logger: slog.New(slog.NewJSONHandler(discard{}, nil))})
	m.AddCluster("idc-a")
	r := written()
	b.ReportAllocs()
	for b.Loop() {
		m.Expect(m.Change(r), &r, nil)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
