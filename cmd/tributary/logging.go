// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// logFlags are the log settings every long-running command has.
type logFlags struct {
	verbosity *int
	format    *choice
}

func addLogFlags(cmd *cobra.Command) logFlags {
	return logFlags{
		verbosity: cmd.Flags().IntP("v", "v", 0, "log verbosity: 0 changes and states, 1 what the client libraries report, 4 and more their details"),
		format:    addChoice(cmd, "log-format", "", "log format", "text", "json"),
	}
}

// bridge: klog and log have one logger a process, which nothing may replace while somebody
// logs.
var bridge sync.Once

// newLogger builds the process's logger on w and bridges klog and log into it, if it is the
// first.
//
// Level Info-v is the lowest one shown, so that a logr V(v) line of a library
// appears at -v=v. Library lines start one step lower than ours: what client-go
// reports at its level 0 (a reflector that retries, say) is no news of its own,
// because the state change behind it is logged by us once.
func (f logFlags) newLogger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo - slog.Level(*f.verbosity)}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if f.format.value == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	bridge.Do(func() { bridgeTo(handler) })
	return slog.New(handler)
}

// bridgeTo makes libraries log to a handler. By log, net/http quotes what others sent after
// the end of an answer: that is shown last of all.
func bridgeTo(handler slog.Handler) {
	klog.SetSlogLogger(slog.New(demoted{handler}))
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(demoted{handler}, slog.LevelDebug).Writer())
}

// demoted lowers every record by one verbosity step, errors included.
type demoted struct{ slog.Handler }

func (d demoted) Enabled(ctx context.Context, level slog.Level) bool {
	return d.Handler.Enabled(ctx, d.level(level))
}

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = d.level(r.Level)
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

func (d demoted) WithGroup(name string) slog.Handler {
	return demoted{d.Handler.WithGroup(name)}
}

func (demoted) level(level slog.Level) slog.Level {
	return min(level, slog.LevelInfo) - 1
}
