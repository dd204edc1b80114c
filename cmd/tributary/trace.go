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
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics/record"
)

// maxLine bounds one change record: a first fill may name 5,000 addresses.
const maxLine = 16 << 20

// tracer is one run of `tributary trace`.
type tracer struct {
	query  record.ChangesQuery
	stderr io.Writer
	// show prints a record; out is the table it goes to in text form.
	show func(line []byte, rec *record.Change) error
	out  *table
	// shown counts the records.
	shown int
}

// newTraceCommand shows change records, newest last; with --follow until it is
// interrupted.
func newTraceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "trace", Short: "Show what changed, why, and how long each step took; newest last", Args: noArguments,
		Long:    "Show what changed, why, and how long each step took; newest last.\nWith --ip in text form: the story of that address.",
		Example: "  tributary trace --service shop/web\n  tributary trace --ip 10.2.3.4 --context ingress\n  tributary trace --follow -o json",
	}
	from := addInstanceFlags(cmd)
	flags := cmd.Flags()
	addServiceFlag(cmd, "only changes of this Service")
	addClusterFlag(cmd, "only changes that this member caused")
	flags.String("ip", "", "only changes that touch this `address`")
	flags.String("since", "", "only changes since then: a duration such as 10m, or a `time` in RFC 3339")
	flags.String("result", "", "only changes with this `result`: written, dropped, held or failed")
	_ = cmd.RegisterFlagCompletionFunc("result", cobra.FixedCompletions([]string{"written", "dropped", "held", "failed"}, cobra.ShellCompDirectiveNoFileComp))
	flags.String("limit", "", "only the last `number` of changes")
	follow := flags.BoolP("follow", "f", false, "keep showing changes as they happen")
	output := addOutputFlag(cmd, "wide")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		values := url.Values{}
		for _, name := range []string{"service", "cluster", "ip", "since", "result", "limit"} {
			if flag := flags.Lookup(name); flag.Changed {
				values.Set(name, flag.Value.String())
			}
		}
		query, err := record.ParseChangesQuery(values, time.Now())
		if err != nil {
			if bad, ok := errors.AsType[*record.ParamError](err); ok {
				err = fmt.Errorf("--%s: %s", bad.Param, bad.Problem)
			}
			return misused(err)
		}
		if query.Follow = *follow; *follow {
			values.Set("follow", "true")
		}
		source, err := from.open(cmd.Context())
		if err != nil {
			return err
		}
		defer source.close()
		t := &tracer{query: query, stderr: cmd.ErrOrStderr()}
		t.show = t.printer(cmd.OutOrStdout(), output.value)
		err = t.run(cmd.Context(), source, values)
		if query.Follow && cmd.Context().Err() != nil {
			return nil
		}
		if err == nil && t.shown == 0 {
			return t.none(cmd.Context(), from, values.Get("cluster"), values.Get("service"))
		}
		if refused, ok := errors.AsType[*complaint](err); ok && refused.status == http.StatusBadRequest {
			return misused(err)
		}
		return failed(err)
	}
	return cmd
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
	case t.query.Follow:
		return fmt.Errorf("%s ended the stream; it was stopped, or this reader was too slow; trace again, which with --context finds the pod that leads now", source.base.Redacted())
	case t.out != nil:
		return t.out.flush()
	}
	return nil
}

// none says why there is nothing to show: of a member or a Service that is not there, nothing ever will be.
func (t *tracer) none(ctx context.Context, from *instanceFlags, cluster, service string) error {
	err := memberExists(ctx, from, cluster)
	if err == nil {
		replica, _ := parseService(service)
		err = serviceExists(ctx, from, replica)
	}
	if err == nil {
		fmt.Fprintln(t.stderr, "No such change is remembered.")
	}
	return err
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

// printer returns the function that prints a record.
func (t *tracer) printer(stdout io.Writer, format string) func([]byte, *record.Change) error {
	switch {
	case format == "json" || format == "yaml":
		return func(line []byte, _ *record.Change) error { return printChange(stdout, format, line) }
	case t.query.IP.IsValid():
		story := newStory(stdout, t.query.IP)
		t.out, story.table.hold = story.table, !t.query.Follow
		return func(_ []byte, rec *record.Change) error { return story.tell(rec) }
	default:
		headings := []string{"TIME", "CLUSTER", "SERVICE", "RESULT", "TOTAL", "QUEUE", "COMPUTE", "WRITE", "CAUSE", "CHANGE"}
		if format == "wide" {
			headings = append(headings, "LANE", "TRACE")
		}
		t.out = newTable(stdout, headings...)
		if t.out.hold = !t.query.Follow; !t.out.hold {
			// Room for what most rows need, so that columns stay in line from the first.
			t.out.fit([]string{stamp(time.Now()), "", "", "written", "100.00 ms", "10.00 ms", "10.00 ms", "100.0 ms"})
		}
		return func(_ []byte, rec *record.Change) error {
			row := changeRow(rec)
			if format == "wide" {
				row = append(row, dash(rec.Lane), dash(rec.TraceID))
			}
			return t.out.row(row...)
		}
	}
}

// printChange prints a record as it came, so with fields that only another version has
// too, and with apiVersion and kind: a line of JSON, or a document of YAML.
func printChange(w io.Writer, format string, line []byte) error {
	text, err := json.Marshal(versioned[json.RawMessage]{config.APIVersion, "Change", line})
	form := "%s\n"
	if err == nil && format == "yaml" {
		form = "---\n%s"
		text, err = yaml.JSONToYAML(text)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, form, text)
	}
	return err
}

func changeRow(rec *record.Change) []string {
	s := rec.Stages
	return []string{
		stamp(rec.Time), dash(rec.Cluster), rec.Namespace + "/" + rec.Service, string(rec.Result),
		millis(s.Total), millis(s.Queue), millis(s.Compute), millis(s.Write()), causeText(rec), deltaText(rec),
	}
}

func causeText(rec *record.Change) string {
	text := rec.Cause.String()
	if more := len(rec.Causes) + rec.CausesDropped; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
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
	return strings.Join(parts, " ")
}
