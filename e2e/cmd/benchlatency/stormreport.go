// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"tributary.dev/tributary/e2e/latency"
)

// stormLimit is the most that a quantile of removals may be, as a multiple of the relay's.
const stormLimit = 1.5

func reportStorm(contenders []stormArm, results map[string]*stormResult, random *rand.Rand) (met bool) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REMOVALS IN A STORM, KNOWN TO VISIBLE\tPROGRAM\tN\tP50 ms\tP90 ms\tP99 ms\tRELABELLED AFTER s")
	for _, c := range contenders {
		r := results[c.name]
		what := "both kinds"
		if c.name == relayAlone {
			what = "Endpoints"
		}
		row(&stormRow{table, r.bulk}, what, c.name, r.removals)
		if len(r.beside) > 0 {
			row(&stormRow{table, nil}, "Endpoints", "null relay beside "+c.name, r.beside)
		}
	}
	table.Flush()
	fmt.Println()
	met = true
	relay := results[relayAlone].removals
	for _, c := range contenders[1:] {
		r := results[c.name]
		for _, against := range []struct {
			name    string
			samples []time.Duration
		}{{relayAlone, relay}, {"null relay beside it", r.beside}} {
			p50 := latency.CompareQuantile(r.removals, against.samples, 0.5, 2000, random)
			p99 := latency.CompareQuantile(r.removals, against.samples, 0.99, 2000, random)
			fmt.Printf("%s / %s: p50 %.2f [%.2f, %.2f], p99 %.2f [%.2f, %.2f]\n", c.name, against.name,
				p50.Value, p50.Low, p50.High, p99.Value, p99.Low, p99.High)
			if c.name == "tributary" && against.name == relayAlone {
				met = p50.Low <= stormLimit && p99.Low <= stormLimit
				fmt.Printf("  goal: both at most %.1f: %s\n", stormLimit, map[bool]string{true: "met", false: "MISSED"}[met])
			}
		}
	}
	for _, former := range contenders[2:] {
		ours, theirs := mean(results["tributary"].bulk), mean(results[former.name].bulk)
		fmt.Printf("relabelled after, tributary / %s: %.2f\n", former.name, float64(ours)/float64(cmp.Or(theirs, 1)))
	}
	return met
}

// stormRow adds a column to the rows of measure.go.
type stormRow struct {
	table *tabwriter.Writer
	bulk  []time.Duration
}

// Write implements io.Writer.
func (r *stormRow) Write(line []byte) (int, error) {
	var seconds []string
	for _, d := range r.bulk {
		seconds = append(seconds, fmt.Sprintf("%.1f", d.Seconds()))
	}
	fmt.Fprintf(r.table, "%s\t%s\n", strings.TrimSuffix(string(line), "\n"), strings.Join(seconds, " "))
	return len(line), nil
}

func mean(times []time.Duration) (sum time.Duration) {
	for _, d := range times {
		sum += d
	}
	return sum / time.Duration(max(1, len(times)))
}
