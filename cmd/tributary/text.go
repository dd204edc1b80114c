// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/metrics/page"
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
			args[i] = page.Legible(text)
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
			cells[i] = page.Legible(cmp.Or(cells[i], "-"))
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

// stamp renders a time in UTC with milliseconds, so that it can be compared
// with logs of other machines.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// count renders how many things there are.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// seconds renders a number of seconds.
func seconds(s float64) string { return page.Short(time.Duration(s * float64(time.Second))) }

// maxShown is how many addresses of each sort a line names.
const maxShown = 3

// delta says what a change does to traffic: the addresses of each sort.
func delta(added, removed, readied, unreadied []string) string {
	var parts []string
	for _, sort := range []struct {
		mark string
		list []string
	}{{"+", added}, {"-", removed}, {"ready:", readied}, {"unready:", unreadied}} {
		for _, address := range sort.list[:min(maxShown, len(sort.list))] {
			parts = append(parts, sort.mark+address)
		}
		if more := len(sort.list) - maxShown; more > 0 {
			parts = append(parts, fmt.Sprintf("%s%d more", sort.mark, more))
		}
	}
	return strings.Join(parts, " ")
}

// addChoice defines a flag whose value must be one of allowed; the first is the default.
func addChoice(cmd *cobra.Command, name, short, about string, allowed ...string) *string {
	value := allowed[0]
	about = fmt.Sprintf("%s: `%s` (default %s)", about, strings.Join(allowed, "|"), value)
	cmd.Flags().FuncP(name, short, about, func(given string) error {
		if !slices.Contains(allowed, given) {
			return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		}
		value = given
		return nil
	})
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return &value
}

// addOutputFlag defines -o: text, and the forms for programs.
func addOutputFlag(cmd *cobra.Command) *string {
	return addChoice(cmd, "output", "o", "output format", "text", "json", "yaml")
}

// show prints a value: for people by text, for programs as -o has it.
func show(w io.Writer, format string, value any, text func(*printer)) error {
	var body []byte
	var err error
	switch format {
	case "json":
		body, err = json.MarshalIndent(value, "", "  ")
		body = append(body, '\n')
	case "yaml":
		body, err = yaml.Marshal(value)
	default:
		p := &printer{w: w}
		text(p)
		return p.err
	}
	if err == nil {
		_, err = w.Write(body)
	}
	return err
}

// addConfigFlag adds --config, which has no default: a file that is picked up
// by accident would write to a cluster by accident.
func addConfigFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().String("config", "", "configuration `file` (required)")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return path
}
