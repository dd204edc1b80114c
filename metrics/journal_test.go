// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func record(result Result, at time.Time) Record {
	r := written()
	r.Result, r.Time = result, at
	return r
}

// TestEveryResultIsLogged: at info, which is what the log shows by default.
func TestEveryResultIsLogged(t *testing.T) {
	var out bytes.Buffer
	m := New(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	for _, result := range Results() {
		m.Change(record(result, noon))
	}
	m.Flush()
	for _, result := range Results() {
		if n := strings.Count(out.String(), "level=INFO msg=change seq="); n != len(Results()) {
			t.Fatalf("%d lines; want %d:\n%s", n, len(Results()), out.String())
		}
		if strings.Count(out.String(), " result="+string(result)+" ") != 1 {
			t.Errorf("no line for %s:\n%s", result, out.String())
		}
	}
}

// TestFloodOfTheLog: what is not written is bounded in the log, and what was left
// out is told; what is written is always there.
func TestFloodOfTheLog(t *testing.T) {
	const flood = 100_000
	var out bytes.Buffer
	m := New(Options{Logger: slog.New(slog.NewTextHandler(&out, nil)), Records: 10})
	for i := range flood {
		m.Change(record(Dropped, noon.Add(time.Duration(i)*time.Microsecond))) // a tenth of a second
	}
	if lines := strings.Count(out.String(), "\n"); lines < journalBurst || lines > journalBurst+journalRate {
		t.Errorf("%d lines for %d changes in 0.1 s; want about %d", lines, flood, journalBurst)
	}
	out.Reset()
	m.Change(record(Written, noon.Add(200*time.Millisecond)))
	m.Flush()
	if strings.Count(out.String(), "result=written") != 1 {
		t.Errorf("a written change is not in the log: %q", out.String())
	}
	out.Reset()
	for i := range 3 {
		m.Change(record(Held, noon.Add(2*time.Second+time.Duration(i)*time.Millisecond)))
	}
	if strings.Count(out.String(), "left_out=") != 1 || strings.Count(out.String(), "result=held") != 3 {
		t.Errorf("after the flood: %s", out.String())
	}
}

// TestHeldIsToldOnce: a relist that finds a replica held as before is no news.
func TestHeldIsToldOnce(t *testing.T) {
	m := New(Options{})
	pass := func(live bool, held ...HeldChange) bool {
		rec := record(Held, noon)
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

// TestLineWaitsForItsEcho: for a moment, so that it has every step.
func TestLineWaitsForItsEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		m := New(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
		ref := Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: "9"}
		change := func(refs ...Ref) {
			rec := record(Written, time.Now())
			rec.Cause.Arrival = time.Now().Add(-2 * time.Millisecond)
			seq := m.Change(rec)
			m.Expect(seq, &rec, refs)
		}
		logged := func(want int, text string) {
			t.Helper()
			synctest.Wait()
			if got := out.take(); strings.Count(got, "msg=change") != want || !strings.Contains(got, text) {
				t.Errorf("want %d lines with %q:\n%s", want, text, got)
			}
		}
		change(ref)
		logged(0, "")
		m.Echo(ref, time.Now().Add(time.Millisecond))
		logged(1, "stages_ms.echo=3 ")
		change() // a deletion has no version to wait for
		logged(1, "result=written")
		ref.ResourceVersion = "10"
		change(ref) // the watch is away
		change(Ref{Kind: "Endpoints", ResourceVersion: "11"})
		logged(0, "")
		time.Sleep(2 * echoPatience)
		logged(2, "result=written")
		m.Echo(ref, time.Now())
		logged(0, "")
		time.Sleep(time.Minute) // nothing waits, and nothing looks
		change(ref)
		m.Flush()
		logged(1, "result=written")
		time.Sleep(time.Minute)
	})
}

// safeBuffer is a log that is read while it is written.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.buf.Reset()
	return b.buf.String()
}
