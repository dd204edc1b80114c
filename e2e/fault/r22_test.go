// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestR22OddWatches gives a member watches that end every second, that cannot be
// resumed, that repeat themselves, and a compacted store. While nothing changes
// nothing is written and hardly anything is done; while something does, nothing
// is lost.
func TestR22OddWatches(t *testing.T) {
	w := newWorld(t, "r22")
	ctx := t.Context()
	proxy := w.proxyTo(w.a)
	churn := NewChurn(w.a, w.ns, 4, 30, w.seed)
	w.must(churn.Fill(ctx))
	w.service("steady", 3, w.b)
	w.start()
	w.converges(10 * time.Second)
	for _, odd := range []struct {
		name   string
		faults []*Fault
	}{
		{"ended each second", []*Fault{{Match: Watches(), Life: time.Second}}},
		{"never resumed", []*Fault{{Match: Resumes(), Status: http.StatusGone}, {Match: Watches(), Life: time.Second}}},
		{"repeating", []*Fault{{Match: Watches(), Echo: true}}},
		{"cut", []*Fault{{Match: Watches(), Share: 0.5, CutBefore: true}, {Match: Watches(), Life: 300 * time.Millisecond}}},
	} {
		end := func() {}
		if odd.name == "cut" {
			end = w.blind(w.a).End
		}
		proxy.Set(odd.faults...)
		proxy.EndWatches()
		quiet := w.quiet()
		cpu := w.cpu()
		long := time.Duration(size(2, 60)) * time.Second
		w.pause(long)
		used := float64(w.cpu()-cpu) / float64(long)
		quiet.End()
		if used > 0.2 {
			t.Errorf("%s: %.0f %% of a core while nothing changed, want at most 20 %%", odd.name, 100*used)
		}
		for range size(40, 400) {
			churn.Step(ctx)
		}
		// Nobody promises how soon that is while the fault goes on. A change waits for as
		// many refusals as the dice want, and for no more than 5 s after each.
		took := w.converges(40 * time.Second)
		w.settled() // else the next quiet time might see it written
		end()
		met := 0
		for _, f := range odd.faults {
			met += f.Met()
		}
		t.Logf("%s: %d requests met, %.1f %% of a core while nothing changed, converged %s after %d changes", odd.name, met, 100*used, took, churn.Done)
	}
	proxy.Set()
	proxy.EndWatches()
	w.compacted(churn)
	w.judge()
}

// compacted lets the member forget its past and restart, so that no watch can be
// resumed.
func (w *world) compacted(churn *Churn) {
	w.Helper()
	ctx := w.Context()
	for range size(2, 20) {
		blind := w.blind(w.a)
		quiet := w.quiet()
		w.must(w.a.Compact(ctx))
		w.crash(w.a)
		w.reportsUp(w.a.Name(), 10*time.Second)
		quiet.End()
		for range 10 {
			churn.Step(ctx)
		}
		w.converges(5 * time.Second)
		w.settled()
		blind.End()
	}
}

// cpu is the processor time that tributary has used so far.
func (w *world) cpu() time.Duration {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.proc.PID()))
	w.must(err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	ticks := int64(0)
	for _, field := range fields[11:13] { // user and system, see proc(5)
		n, err := strconv.ParseInt(field, 10, 64)
		w.must(err)
		ticks += n
	}
	const ticksPerSecond = 100
	return time.Duration(ticks) * time.Second / ticksPerSecond
}
