// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// show draws the board until the context ends: over itself on a terminal, as
// plain lines every few seconds elsewhere.
func show(ctx context.Context, out *os.File, b *board) error {
	live := isTerminal(out)
	interval := 5 * time.Second
	if live {
		interval = 250 * time.Millisecond
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if live {
			io.WriteString(out, "\x1b[H\x1b[2J")
		}
		io.WriteString(out, draw(b, time.Now()))
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// draw formats the whole board as text.
func draw(b *board, now time.Time) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(&text, "Tributary, %s in; page and metrics at %s\n\n", now.Sub(b.started).Round(time.Second), b.url)
	fmt.Fprintln(table, "CLUSTER\tPODS\tCHANGES\tPER SECOND\tP50\tP99")
	for _, r := range b.rows() {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%s\t%s\n", r.cluster, r.pods, r.changes, r.perSec, millis(r.p50), millis(r.p99))
	}
	table.Flush()

	fmt.Fprintln(&text, "\nlast changes: from the pod's watch event to the acknowledged write")
	fmt.Fprintln(table, "TIME\tCLUSTER\tSERVICE\tWHAT\tTOTAL")
	for _, c := range b.recent() {
		fmt.Fprintf(table, "%s\t%s\t%s/%s\t%s\t%.1f ms\n", c.Time.Local().Format("15:04:05.000"), c.Cluster, c.Namespace, c.Service, what(c), c.Stages["total"])
	}
	table.Flush()

	if line := b.rule(); line != "" {
		fmt.Fprintf(&text, "\n%s\n", line)
	}
	if act, lines := b.contest(); act != "" {
		fmt.Fprintf(&text, "\nwhy this exists: %s\n", act)
		if len(lines) > 0 {
			fmt.Fprintln(table, "POD NOT READY\tIN THE INGRESS BY TRIBUTARY\tIN THE MEMBER'S ENDPOINTS BY ITS CONTROLLER MANAGER")
		}
		for _, line := range lines {
			fmt.Fprintf(table, "%s\t%s\t%s\n", line.address, line.ours.text(now), line.native.text(now))
		}
		table.Flush()
	}
	text.WriteByte('\n')
	return text.String()
}

// what describes what happened to which addresses.
func what(c change) string {
	var parts []string
	for _, p := range []struct {
		sign      string
		addresses []string
	}{{"+", c.Added}, {"-", c.Removed}, {"ready ", c.Readied}, {"unready ", c.Unreadied}} {
		for _, address := range p.addresses {
			parts = append(parts, p.sign+address)
		}
	}
	if len(parts) == 0 {
		return "ports or labels"
	}
	const shown = 3
	if len(parts) > shown {
		parts = append(parts[:shown], fmt.Sprintf("and %d more", len(parts)-shown))
	}
	return strings.Join(parts, " ")
}

func millis(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
