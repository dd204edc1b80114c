// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"tributary.dev/tributary/e2e/fleet"
	"tributary.dev/tributary/e2e/latency"
)

// series are the samples of one arm by what had to become visible.
type series map[string][]time.Duration

// The key of an arm's samples beside the kinds themselves.
const bothKinds = "both kinds"

// open starts observing arms; close ends that.
func open(ctx context.Context, f *fleet.Fleet, o latency.Observer, arms ...latency.Arm) (sessions []*latency.Session, close func(), err error) {
	o.Member, o.Ingress = f.Member(memberName).Client, f.Ingress.Client
	close = func() {
		for _, s := range sessions {
			s.Close()
		}
	}
	for _, arm := range arms {
		session, err := o.Open(ctx, arm)
		if err != nil {
			close()
			return nil, nil, err
		}
		sessions = append(sessions, session)
	}
	return sessions, close, nil
}

// measure alternates between the arms until each has its samples.
func measure(ctx context.Context, f *fleet.Fleet, arms []latency.Arm, s settings) (map[string]series, error) {
	sessions, close, err := open(ctx, f, latency.Observer{Patience: 30 * time.Second}, arms...)
	if err != nil {
		return nil, err
	}
	defer close()
	results := map[string]series{}
	for _, arm := range arms {
		results[arm.Name] = series{}
	}
	for taken := -turn; taken < s.samples; taken += turn {
		for i, arm := range arms {
			if err := takeTurn(ctx, sessions[i], min(turn, s.samples-taken), s.pause, taken >= 0, results[arm.Name]); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

func takeTurn(ctx context.Context, session *latency.Session, n int, pause time.Duration, record bool, into series) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for range n {
		sample, err := session.Flip(ctx)
		if err != nil {
			return err
		}
		if record {
			into.add(sample)
		}
		<-ticker.C
	}
	return nil
}

func (s series) add(sample latency.Sample) {
	var last time.Duration
	for kind, d := range sample {
		s[string(kind)] = append(s[string(kind)], d)
		last = max(last, d)
	}
	if len(sample) > 1 {
		s[bothKinds] = append(s[bothKinds], last)
	}
}

// goal is the most that tributary's median may be, as a multiple of the
// relay's median for one write of an Endpoints object.
type goal struct {
	what  string
	relay latency.Kind
	limit float64
}

var goals = []goal{
	{string(latency.Endpoints), latency.Endpoints, 1.5},
	{string(latency.EndpointSlices), latency.EndpointSlices, 0},
	{bothKinds, latency.Endpoints, 1.8},
}

// report prints quantiles and ratios.
func report(w io.Writer, results map[string]series) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATCH ACKNOWLEDGED TO VISIBLE\tPROGRAM\tN\tP50 ms\tP90 ms\tP99 ms")
	for _, g := range goals {
		row(table, g.what, "tributary", results["tributary"][g.what])
		if g.what == string(g.relay) {
			row(table, g.what, "null relay", results["null relay, "+string(g.relay)][string(g.relay)])
		}
	}
	table.Flush()
	fmt.Fprintln(table, "\nRATIO tributary / null relay\tP50 [95 % interval]\tP90\tP99\tGOAL, P50")
	for _, g := range goals {
		compare(table, label(g), results["tributary"][g.what], results["null relay, "+string(g.relay)][string(g.relay)], g.limit)
	}
	table.Flush()
}

// ratio is a quotient of the same quantiles.
func ratio(ours, theirs []time.Duration, q float64) latency.Ratio {
	return latency.CompareQuantile(ours, theirs, q, 2000, rand.New(rand.NewPCG(1, uint64(len(ours)))))
}

// compare prints ratios of two arms, and whether that of the medians is at most the limit; 0: there is none.
func compare(w io.Writer, label string, ours, theirs []time.Duration, limit float64) {
	median, verdict := ratio(ours, theirs, 0.5), "-"
	if limit > 0 {
		verdict = fmt.Sprintf("<= %.2f %s", limit, met(median.Value <= limit))
	}
	fmt.Fprintf(w, "%s\t%.3f [%.3f, %.3f]\t%.3f\t%.3f\t%s\n", label, median.Value, median.Low, median.High,
		ratio(ours, theirs, 0.9).Value, ratio(ours, theirs, 0.99).Value, verdict)
}

func met(is bool) string {
	if is {
		return "met"
	}
	return "MISSED"
}

func label(g goal) string {
	if g.what == string(g.relay) {
		return g.what
	}
	return g.what + " / relay's " + string(g.relay)
}

// row prints quantiles, and more columns.
func row(w io.Writer, what, program string, d []time.Duration, more ...string) {
	ms := func(q float64) float64 { return float64(latency.Quantile(d, q)) / float64(time.Millisecond) }
	fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f", what, program, len(d), ms(0.5), ms(0.9), ms(0.99))
	for _, column := range more {
		fmt.Fprint(w, "\t"+column)
	}
	fmt.Fprintln(w)
}

// cpuModel names the processor, which belongs to a published figure.
func cpuModel() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, found := strings.Cut(lines.Text(), ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
