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
	"time"

	"tributary.dev/tributary/metrics"
)

// maxLine bounds one change record: a first fill may name 5,000 addresses.
const maxLine = 16 << 20

// tracer is one run of `tributary trace`.
type tracer struct {
	query  metrics.ChangesQuery
	stderr io.Writer
	// show prints a record; out is the table it goes to in text form.
	show func(line []byte, rec *metrics.Record) error
	out  *table
	// shown counts the records.
	shown int
}

// traceCommand shows change records, newest last; with --follow until it is
// interrupted.
func traceCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("trace", "[--service NAMESPACE/NAME] [--ip IP] [flags]",
		"Show what changed, why, and how long each step took; newest last.\n"+
			"With --ip in text form: the story of that address.", stderr)
	server := addServerFlag(fs)
	values := url.Values{}
	filter := func(name, about string) {
		fs.Func(name, about, func(value string) error {
			values.Set(name, value)
			return nil
		})
	}
	filter("service", "only changes of this Service: `NAMESPACE/NAME`")
	filter("ip", "only changes that touch this `address`")
	filter("cluster", "only changes that this member `cluster` caused")
	filter("since", "only changes since then: a duration such as 10m, or a `time` in RFC 3339")
	filter("result", "only changes with this `result`: written, dropped, held or failed")
	filter("limit", "only the last `number` of changes")
	follow := fs.Bool("follow", false, "keep showing changes as they happen")
	output := choiceFlag(fs, "o", "output format", "text", "json")
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	query, err := metrics.ParseChangesQuery(values, time.Now())
	if err != nil {
		if bad, ok := errors.AsType[*metrics.ParamError](err); ok {
			err = fmt.Errorf("--%s: %s", bad.Param, bad.Problem)
		}
		return traceFailed(stderr, err, exitUsage)
	}
	if *follow {
		values.Set("follow", "true")
		query.Follow = true
	}
	source, err := newInstance(*server)
	if err != nil {
		return traceFailed(stderr, err, exitUsage)
	}
	defer source.close()
	t := &tracer{query: query, stderr: stderr}
	t.show = t.printer(stdout, *output)
	switch err := t.run(ctx, source, values); {
	case err == nil, query.Follow && ctx.Err() != nil:
		return exitOK
	default:
		if refused, ok := errors.AsType[*complaint](err); ok && refused.status == 400 {
			return traceFailed(stderr, err, exitUsage)
		}
		return traceFailed(stderr, err, exitFailed)
	}
}

func traceFailed(stderr io.Writer, err error, code int) int {
	fmt.Fprintf(stderr, "tributary trace: %v\n", err)
	return code
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
		return fmt.Errorf("%s ended the stream; it was stopped, or this reader was too slow", source.base.Redacted())
	case t.shown == 0:
		fmt.Fprintln(t.stderr, "No such change is remembered.")
	case t.out != nil:
		return t.out.flush()
	}
	return nil
}

// line handles one line of the answer: a record, a note about missed ones, or
// an empty line that keeps the connection alive.
func (t *tracer) line(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var received struct {
		metrics.Record
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
	return t.show(line, &received.Record)
}

// printer returns the function that prints a record.
func (t *tracer) printer(stdout io.Writer, format string) func([]byte, *metrics.Record) error {
	switch {
	case format == "json":
		return func(line []byte, _ *metrics.Record) error {
			_, err := stdout.Write(append(bytes.Clone(line), '\n'))
			return err
		}
	case t.query.IP.IsValid():
		story := newStory(stdout, t.query.IP)
		t.out, story.table.hold = story.table, !t.query.Follow
		return func(_ []byte, rec *metrics.Record) error { return story.tell(rec) }
	default:
		t.out = newTable(stdout, "TIME", "CLUSTER", "SERVICE", "RESULT", "TOTAL", "QUEUE", "COMPUTE", "WRITE", "CAUSE", "CHANGE")
		if t.out.hold = !t.query.Follow; !t.out.hold {
			// Room for what most rows need, so that columns stay in line from the first.
			t.out.fit([]string{stamp(time.Now()), "", "", "written", "100.00 ms", "10.00 ms", "10.00 ms", "100.0 ms"})
		}
		return func(_ []byte, rec *metrics.Record) error { return t.out.row(changeRow(rec)...) }
	}
}

func changeRow(rec *metrics.Record) []string {
	s := rec.Stages
	return []string{
		stamp(rec.Time), dash(rec.Cluster), rec.Namespace + "/" + rec.Service, string(rec.Result),
		millis(s.Total), millis(s.Queue), millis(s.Compute), millis(s.Write()), causeText(rec), deltaText(rec),
	}
}

func causeText(rec *metrics.Record) string {
	text := rec.Cause.String()
	if more := len(rec.Causes) + rec.CausesDropped; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxShown is how many addresses of each sort a row names.
const maxShown = 3

// deltaText says what a change did to traffic, in one cell.
func deltaText(rec *metrics.Record) string {
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
