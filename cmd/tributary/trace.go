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

// traceColumns are the headings, and how wide the columns are: rows are printed as they come.
var traceColumns = []struct {
	heading string
	width   int
}{{"SEEN", 24}, {"TOTAL", 7}, {"QUEUE", 7}, {"COMPUTE", 7}, {"WRITE", 7}, {"RESULT", 7}, {"CLUSTER", 10}, {"SERVICE", 20}, {"CAUSE", 32}, {"CHANGE", 0}}

// newTraceCommand shows change records, newest last; with --follow until it is
// interrupted.
func newTraceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Show what changed, why, and how long each step took; newest last", Args: cobra.NoArgs,
		Example: "  tributary trace --service shop/web\n  tributary trace --ip 10.2.3.4 --context ingress\n  tributary trace --follow -o json",
	}
	from := addInstanceFlags(cmd)
	flags := cmd.Flags()
	flags.String("service", "", "only changes of this Service: `NAMESPACE/NAME`")
	flags.String("cluster", "", "only changes that this `member` caused")
	flags.String("ip", "", "only changes that touch this `address`")
	follow := flags.BoolP("follow", "f", false, "keep showing changes as they happen")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		for _, name := range []string{"service", "cluster", "ip"} {
			if flag := flags.Lookup(name); flag.Changed {
				query.Set(name, flag.Value.String())
			}
		}
		if _, err := record.ParseChangesQuery(query); err != nil {
			if bad, ok := errors.AsType[*record.ParamError](err); ok {
				err = fmt.Errorf("--%s: %s", bad.Param, bad.Problem)
			}
			return usage{err}
		}
		if *follow {
			query.Set("follow", "true")
		}
		t := &tracer{out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), format: *output}
		err := t.run(cmd.Context(), from, query)
		switch {
		case *follow && cmd.Context().Err() != nil:
			return nil
		case err == nil && *follow:
			return errors.New("the instance ended the stream: it was stopped, or this reader was too slow; trace again, which with --context finds the pod that leads now")
		case err == nil && t.shown == 0:
			fmt.Fprintln(t.stderr, "No such change is remembered. An instance remembers the newest of its own; tributary status names its members.")
		}
		return err
	}
	return cmd
}

// tracer is one run of `tributary trace`.
type tracer struct {
	out, stderr io.Writer
	format      string
	shown       int
}

// run shows records until there are no more.
func (t *tracer) run(ctx context.Context, from *instanceFlags, query url.Values) error {
	source, err := from.open(ctx)
	if err != nil {
		return err
	}
	defer source.close()
	body, err := source.get(ctx, "/debug/changes", query)
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
	return lines.Err()
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

// show prints a record: for programs as it came, one JSON object a line or one YAML document.
func (t *tracer) show(line []byte, rec *record.Change) error {
	var text []byte
	var err error
	switch t.format {
	case "json":
		text = fmt.Appendf(nil, "%s\n", line)
	case "yaml":
		text, err = yaml.JSONToYAML(line)
		text = append([]byte("---\n"), text...)
	default:
		var cells []string
		if t.shown == 1 {
			for _, c := range traceColumns {
				cells = append(cells, c.heading)
			}
			text = append(text, row(cells)...)
		}
		text = append(text, row(changeCells(rec))...)
	}
	if err == nil {
		_, err = t.out.Write(text)
	}
	return err
}

// row puts cells below the headings.
func row(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "%-*s  ", traceColumns[i].width, clean(cell))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

func changeCells(rec *record.Change) []string {
	s := &rec.Stages
	change := delta(rec.Added, rec.Removed, rec.Readied, rec.Unreadied)
	if rec.Error != "" {
		change += " error: " + rec.Error
	}
	return []string{
		stamp(rec.Cause.Arrival), page.Short(s.Total), page.Short(s.Queue), page.Short(s.Compute), page.Short(s.Write()),
		string(rec.Result), rec.Cluster, rec.Namespace + "/" + rec.Service, causeText(rec), change,
	}
}

func causeText(rec *record.Change) string {
	text := rec.Cause.String()
	if rec.Causes > 1 {
		text += fmt.Sprintf(", the first of %d", rec.Causes)
	}
	return text
}
