// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// stormLimit is the most that a quantile of removals may be, as a multiple of the relay's.
const stormLimit = 1.5

func reportStorm(contenders []stormArm, results map[string]*stormResult) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REMOVALS IN A STORM, KNOWN TO VISIBLE\tPROGRAM\tN\tP50 ms\tP90 ms\tP99 ms\tRELABELLED AFTER s")
	for _, c := range contenders {
		r := results[c.name]
		what := bothKinds
		if c.name == relayAlone {
			what = "Endpoints"
		}
		var bulk []string
		for _, d := range r.bulk {
			bulk = append(bulk, fmt.Sprintf("%.1f", d.Seconds()))
		}
		row(table, what, c.name, r.removals, strings.Join(bulk, " "))
		if len(r.beside) > 0 {
			row(table, "Endpoints", "null relay beside "+c.name, r.beside, "")
		}
	}
	table.Flush()
	fmt.Println()
	relay := results[relayAlone].removals
	for _, c := range contenders[1:] {
		r := results[c.name]
		for _, against := range []struct {
			name    string
			samples []time.Duration
		}{{relayAlone, relay}, {"null relay beside it", r.beside}} {
			p50, p99 := ratio(r.removals, against.samples, 0.5), ratio(r.removals, against.samples, 0.99)
			fmt.Printf("%s / %s: p50 %.2f [%.2f, %.2f], p99 %.2f [%.2f, %.2f]\n", c.name, against.name,
				p50.Value, p50.Low, p50.High, p99.Value, p99.Low, p99.High)
			if c.name == "tributary" && against.name == relayAlone {
				fmt.Printf("  goal: both at most %.1f: %s\n", stormLimit, met(p50.Low <= stormLimit && p99.Low <= stormLimit))
			}
		}
	}
	for _, former := range contenders[2:] {
		ours, theirs := mean(results["tributary"].bulk), mean(results[former.name].bulk)
		fmt.Printf("relabelled after, tributary / %s: %.2f\n", former.name, float64(ours)/float64(cmp.Or(theirs, 1)))
	}
}

func mean(times []time.Duration) (sum time.Duration) {
	for _, d := range times {
		sum += d
	}
	return sum / time.Duration(max(1, len(times)))
}
