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

// measure alternates between the arms until each has its samples.
func measure(ctx context.Context, f *fleet.Fleet, arms []latency.Arm, s settings) (map[string]series, error) {
	observer := &latency.Observer{Member: f.Member(memberName).Client, Ingress: f.Ingress.Client, Patience: 30 * time.Second}
	results := map[string]series{}
	sessions := make([]*latency.Session, len(arms))
	for i, arm := range arms {
		session, err := observer.Open(ctx, arm)
		if err != nil {
			return nil, err
		}
		defer session.Close()
		sessions[i] = session
		results[arm.Name] = series{}
	}
	for taken := -s.warmup; taken < s.samples; {
		turn := min(s.turn, s.samples-taken)
		if taken < 0 {
			turn = min(s.turn, -taken)
		}
		for i, arm := range arms {
			if err := takeTurn(ctx, sessions[i], turn, s.pause, taken >= 0, results[arm.Name]); err != nil {
				return nil, err
			}
		}
		taken += turn
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

// report prints quantiles and ratios; met tells whether all goals were reached,
// or missed by no more than chance explains.
func report(w io.Writer, results map[string]series, random *rand.Rand) (met bool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PATCH ACKNOWLEDGED TO VISIBLE\tPROGRAM\tN\tP50 ms\tP90 ms\tP99 ms")
	for _, g := range goals {
		row(table, g.what, "tributary", results["tributary"][g.what])
		if g.what == string(g.relay) {
			row(table, g.what, "null relay", results["null relay, "+string(g.relay)][string(g.relay)])
		}
	}
	table.Flush()
	fmt.Fprintln(w)

	met = true
	fmt.Fprintln(table, "RATIO tributary / null relay\tP50 [95 % interval]\tP90\tP99\tGOAL, P50")
	for _, g := range goals {
		ours, theirs := results["tributary"][g.what], results["null relay, "+string(g.relay)][string(g.relay)]
		median := latency.CompareQuantile(ours, theirs, 0.5, 2000, random)
		verdict := "-"
		if g.limit > 0 {
			verdict = fmt.Sprintf("<= %.1f met", g.limit)
			if median.Value > g.limit {
				verdict = fmt.Sprintf("<= %.1f MISSED", g.limit)
			}
			met = met && median.Low <= g.limit
		}
		fmt.Fprintf(table, "%s\t%.2f [%.2f, %.2f]\t%.2f\t%.2f\t%s\n", label(g), median.Value, median.Low, median.High,
			latency.CompareQuantile(ours, theirs, 0.9, 1, random).Value, latency.CompareQuantile(ours, theirs, 0.99, 1, random).Value, verdict)
	}
	table.Flush()
	return met
}

func label(g goal) string {
	if g.what == string(g.relay) {
		return g.what
	}
	return g.what + " / relay's " + string(g.relay)
}

func row(w io.Writer, what, program string, d []time.Duration) {
	ms := func(q float64) float64 { return float64(latency.Quantile(d, q)) / float64(time.Millisecond) }
	fmt.Fprintf(w, "%s\t%s\t%d\t%.2f\t%.2f\t%.2f\n", what, program, len(d), ms(0.5), ms(0.9), ms(0.99))
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
