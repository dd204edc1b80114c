// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printer prints for people and remembers the first error.
type printer struct {
	w   io.Writer
	err error
}

// printf prints a line; texts among the arguments are cleaned.
func (p *printer) printf(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = clean(text)
		}
	}
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// table prints rows under headings, as kubectl does; nothing without rows.
func (p *printer) table(headings []string, rows [][]string) {
	if len(rows) == 0 || p.err != nil {
		return
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{headings}, rows...) {
		for i := range cells {
			cells[i] = clean(cells[i])
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	p.err = t.Flush()
}

// section is a table under a headline. total is how many rows there are, shown or not.
func (p *printer) section(headline string, total int, headings []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.printf("\n%s\n", headline)
	p.table(headings, rows)
	if total > len(rows) {
		p.printf("… and %d more\n", total-len(rows))
	}
}

// clean keeps text that a cluster chose from driving the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// stamp renders a time in UTC with milliseconds, so that it can be compared
// with logs of other machines.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// millis renders a duration in milliseconds.
func millis(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}

// span renders a duration coarsely, as kubectl renders ages.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// seconds is span for a number of seconds.
func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// ago renders how long before now t was.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return span(now.Sub(t)) + " ago"
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
