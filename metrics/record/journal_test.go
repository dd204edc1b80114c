// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ignore is told of echoes, and does nothing.
func ignore(*Change) {}

// of is a finished record with the result.
func of(result Result, at time.Time) *Change {
	r := written()
	r.Result, r.Time = result, at
	return &r
}

// TestEveryResultIsLogged: at info, which is what the log shows by default.
func TestEveryResultIsLogged(t *testing.T) {
	var out bytes.Buffer
	k := NewKeeper(NewRing(0, 0), slog.New(slog.NewTextHandler(&out, nil)), ignore)
	for _, result := range Results() {
		k.Add(of(result, noon))
	}
	k.Flush()
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
	k := NewKeeper(NewRing(10, 0), slog.New(slog.NewTextHandler(&out, nil)), ignore)
	for i := range flood {
		k.Add(of(Dropped, noon.Add(time.Duration(i)*time.Microsecond))) // a tenth of a second
	}
	if lines := strings.Count(out.String(), "\n"); lines < journalBurst || lines > journalBurst+journalRate {
		t.Errorf("%d lines for %d changes in 0.1 s; want about %d", lines, flood, journalBurst)
	}
	out.Reset()
	k.Add(of(Written, noon.Add(200*time.Millisecond)))
	k.Flush()
	if strings.Count(out.String(), "result=written") != 1 {
		t.Errorf("a written change is not in the log: %q", out.String())
	}
	out.Reset()
	for i := range 3 {
		k.Add(of(Held, noon.Add(2*time.Second+time.Duration(i)*time.Millisecond)))
	}
	if strings.Count(out.String(), "left_out=") != 1 || strings.Count(out.String(), "result=held") != 3 {
		t.Errorf("after the flood: %s", out.String())
	}
}

// TestLineWaitsForItsEcho: for a moment, so that it has every step.
func TestLineWaitsForItsEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		k := NewKeeper(NewRing(0, 0), slog.New(slog.NewTextHandler(&out, nil)), ignore)
		ref := Ref{Kind: "Endpoints", Namespace: "shop", Name: "web", ResourceVersion: "9"}
		change := func(refs ...Ref) {
			rec := of(Written, time.Now())
			rec.Cause.Arrival = time.Now().Add(-2 * time.Millisecond)
			seq := k.Add(rec)
			k.Expect(seq, rec.Cause.Arrival, refs)
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
		k.Echo(ref, time.Now().Add(time.Millisecond))
		logged(1, "stages_ms.echo=3 ")
		change() // a deletion has no version to wait for
		logged(1, "result=written")
		ref.ResourceVersion = "10"
		change(ref) // the watch is away
		change(Ref{Kind: "Endpoints", ResourceVersion: "11"})
		logged(0, "")
		time.Sleep(2 * EchoPatience)
		logged(2, "result=written")
		k.Echo(ref, time.Now())
		logged(0, "")
		time.Sleep(time.Minute) // nothing waits, and nothing looks
		change(ref)
		k.Flush()
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
