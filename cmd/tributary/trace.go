// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
)

// maxLine bounds one change record: a first fill may name 5,000 addresses.
const maxLine = 16 << 20

// traceColumns are the headings, and how wide the columns are while changes are followed.
var traceColumns = []struct {
	heading string
	width   int
}{{"SEEN", 24}, {"WRITTEN", 24}, {"CLUSTER", 12}, {"SERVICE", 24}, {"RESULT", 7}, {"TOTAL", 9}, {"QUEUE", 9}, {"COMPUTE", 9}, {"WRITE", 9}, {"CAUSE", 40}, {"CHANGE", 0}}

// newTraceCommand shows change records, newest last; with --follow until it is
// interrupted.
func newTraceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Show what changed, why, and how long each step took; newest last", Args: noArguments,
		Example: "  tributary trace --service shop/web\n  tributary trace --ip 10.2.3.4 --context ingress\n  tributary trace --follow -o json",
	}
	from := addInstanceFlags(cmd)
	flags := cmd.Flags()
	flags.String("service", "", "only changes of this Service: `NAMESPACE/NAME`")
	addClusterFlag(cmd, "only changes that this member caused")
	flags.String("ip", "", "only changes that touch this `address`")
	follow := flags.BoolP("follow", "f", false, "keep showing changes as they happen")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		values := url.Values{}
		for _, name := range []string{"service", "cluster", "ip"} {
			if flag := flags.Lookup(name); flag.Changed {
				values.Set(name, flag.Value.String())
			}
		}
		if _, err := record.ParseChangesQuery(values); err != nil {
			if bad, ok := errors.AsType[*record.ParamError](err); ok {
				err = fmt.Errorf("--%s: %s", bad.Param, bad.Problem)
			}
			return misused(err)
		}
		if *follow {
			values.Set("follow", "true")
		}
		source, err := from.open(cmd.Context())
		if err != nil {
			return err
		}
		defer source.close()
		t := &tracer{out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), format: output.value, follow: *follow}
		err = t.run(cmd.Context(), source, values)
		switch {
		case *follow && cmd.Context().Err() != nil:
			return nil
		case err != nil:
			return cmpExit(err)
		case t.shown == 0:
			fmt.Fprintln(t.stderr, "No such change is remembered.")
			if s, err := from.status(cmd.Context()); err == nil {
				return memberExists(s, values.Get("cluster"))
			}
		}
		return nil
	}
	return cmd
}

// cmpExit leaves an error that has an exit code, and makes others failures.
func cmpExit(err error) error {
	if _, ok := errors.AsType[*exit](err); ok {
		return err
	}
	return failed(err)
}

// tracer is one run of `tributary trace`.
type tracer struct {
	out, stderr io.Writer
	format      string
	follow      bool
	// rows are those of a table that is printed at the end.
	rows  [][]string
	shown int
}

// run reads records until there are no more.
func (t *tracer) run(ctx context.Context, source *instance, values url.Values) error {
	body, err := source.get(ctx, "/debug/changes", values)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if err := t.line(lines.Bytes()); err != nil {
			return err
		}
	}
	switch {
	case lines.Err() != nil:
		return fmt.Errorf("read changes: %w", lines.Err())
	case t.follow:
		return fmt.Errorf("%s ended the stream; it was stopped, or this reader was too slow; trace again, which with --context finds the pod that leads now", source.base.Redacted())
	}
	p := &printer{w: t.out}
	headings := make([]string, len(traceColumns))
	for i, c := range traceColumns {
		headings[i] = c.heading
	}
	p.table(headings, t.rows)
	return p.err
}

// line handles one line of the answer: a record, a note about missed ones, or
// an empty line that keeps the connection alive.
func (t *tracer) line(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var received struct {
		record.Change
		Missed uint64 `json:"missed"`
	}
	if err := json.Unmarshal(line, &received); err != nil {
		return fmt.Errorf("read changes: %w; is the server a tributary of this version?", err)
	}
	if received.Missed > 0 {
		fmt.Fprintf(t.stderr, "%d changes came faster than they could be shown and are left out.\n", received.Missed)
		return nil
	}
	t.shown++
	return t.show(line, &received.Change)
}

// show prints a record: for programs as it came, so with fields that only another version
// has, too.
func (t *tracer) show(line []byte, rec *record.Change) error {
	switch {
	case t.format == "json":
		_, err := fmt.Fprintf(t.out, "%s\n", line)
		return err
	case t.format == "yaml":
		text, err := yaml.JSONToYAML(line)
		if err == nil {
			_, err = fmt.Fprintf(t.out, "---\n%s", text)
		}
		return err
	case !t.follow:
		t.rows = append(t.rows, changeRow(rec))
		return nil
	}
	var b strings.Builder
	if t.shown == 1 {
		for _, c := range traceColumns {
			fmt.Fprintf(&b, "%-*s  ", c.width, c.heading)
		}
		b.WriteByte('\n')
	}
	for i, cell := range changeRow(rec) {
		fmt.Fprintf(&b, "%-*s  ", traceColumns[i].width, clean(cell))
	}
	_, err := fmt.Fprintln(t.out, strings.TrimRight(b.String(), " "))
	return err
}

func changeRow(rec *record.Change) []string {
	s := rec.Stages
	return []string{
		stamp(rec.Cause.Arrival), stamp(rec.Time), dash(rec.Cluster), rec.Namespace + "/" + rec.Service, string(rec.Result),
		page.Short(s.Total), page.Short(s.Queue), page.Short(s.Compute), page.Short(s.Write()), causeText(rec), deltaText(rec),
	}
}

func causeText(rec *record.Change) string {
	text := rec.Cause.String()
	if rec.Causes > 1 {
		text += fmt.Sprintf(", the first of %d", rec.Causes)
	}
	return text
}

// maxShown is how many addresses of each sort a row names.
const maxShown = 3

// deltaText says what a change did to traffic, in one cell.
func deltaText(rec *record.Change) string {
	var parts []string
	for _, sort := range []struct {
		mark string
		list []string
	}{{"+", rec.Added}, {"-", rec.Removed}, {"ready:", rec.Readied}, {"unready:", rec.Unreadied}} {
		for _, address := range sort.list[:min(maxShown, len(sort.list))] {
			parts = append(parts, sort.mark+address)
		}
		if more := len(sort.list) - maxShown; more > 0 {
			parts = append(parts, fmt.Sprintf("%s%d more", sort.mark, more))
		}
	}
	if rec.Error != "" {
		parts = append(parts, "error: "+rec.Error)
	}
	return dash(strings.Join(parts, " "))
}
