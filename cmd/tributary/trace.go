// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
)

// maxLine bounds one change record: a first fill may name 5,000 addresses.
const maxLine = 16 << 20

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
		flags.Visit(func(f *pflag.Flag) {
			if slices.Contains([]string{"service", "cluster", "ip", "follow"}, f.Name) {
				query.Set(f.Name, f.Value.String())
			}
		})
		t := &tracer{out: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), format: *output}
		err := from.read(cmd.Context(), "/debug/changes", query, t.lines)
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

// lines shows the records of an answer until there are no more.
func (t *tracer) lines(answer io.Reader) error {
	lines := bufio.NewScanner(answer)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		if err := t.line(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// line handles one line of the answer: a record, a note about missed ones, or
// an empty line that keeps the connection alive. A record is shown to programs as it came.
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
	text := string(line) + "\n"
	switch t.format {
	case "yaml":
		document, err := yaml.JSONToYAML(line)
		if err != nil {
			return err
		}
		text = "---\n" + string(document)
	case "text":
		text = row(cellsOf(&received.Change))
		if t.shown == 1 {
			text = row(headings) + text
		}
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// headings of the columns, and how wide these are: rows are shown as they come, so that no row knows the next.
var (
	headings = []string{"SEEN", "TOTAL", "QUEUE", "COMPUTE", "WRITE", "RESULT", "CLUSTER", "SERVICE", "CAUSE", "CHANGE"}
	widths   = []int{24, 7, 7, 7, 7, 7, 10, 20, 32, 0}
)

// row puts cells below the headings.
func row(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "%-*s  ", widths[i], page.Legible(cell))
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

func cellsOf(rec *record.Change) []string {
	s := &rec.Stages
	change, cause := delta(rec.Added, rec.Removed, rec.Readied, rec.Unreadied), rec.Cause.String()
	if rec.Error != "" {
		change += " error: " + rec.Error
	}
	if rec.Causes > 1 {
		cause += fmt.Sprintf(", the first of %d", rec.Causes)
	}
	return []string{
		stamp(rec.Cause.Arrival), page.Short(s.Total), page.Short(s.Queue), page.Short(s.Compute), page.Short(s.Write()),
		string(rec.Result), rec.Cluster, rec.Namespace + "/" + rec.Service, cause, change,
	}
}
