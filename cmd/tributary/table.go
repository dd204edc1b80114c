// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// table prints rows under headings, as kubectl does. Rows are printed as they
// come, in columns that grow with what was printed so far; or, if held, all
// at the end in columns that fit.
type table struct {
	w        io.Writer
	headings []string
	widths   []int
	started  bool
	hold     bool
	held     [][]string
}

func newTable(w io.Writer, headings ...string) *table {
	t := &table{w: w, headings: headings, widths: make([]int, len(headings))}
	t.fit(headings)
	return t
}

// fit widens the columns for a row that will come.
func (t *table) fit(cells []string) {
	for i, cell := range cells {
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
	}
}

// row prints one row, the headings before the first.
func (t *table) row(cells ...string) error {
	for i := range cells {
		cells[i] = clean(cells[i])
	}
	t.fit(cells)
	if t.hold {
		t.held = append(t.held, cells)
		return nil
	}
	if !t.started {
		t.started = true
		if err := t.print(t.headings); err != nil {
			return err
		}
	}
	return t.print(cells)
}

func (t *table) print(cells []string) error {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2))
		}
	}
	_, err := fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	return err
}

// flush prints what was held.
func (t *table) flush() error {
	held := t.held
	t.hold, t.held = false, nil
	for _, cells := range held {
		if err := t.row(cells...); err != nil {
			return err
		}
	}
	return nil
}

// rows prints a table that is known whole.
func rows(w io.Writer, headings []string, all [][]string) error {
	t := newTable(w, headings...)
	t.hold = true
	for _, cells := range all {
		if err := t.row(cells...); err != nil {
			return err
		}
	}
	return t.flush()
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
	case d < 0:
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
