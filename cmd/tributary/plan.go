// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/reconcile/plan"
)

// planCommand shows what run would write, and writes nothing.
func planCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("plan", "--config FILE [flags]", "Show what run would create, update and delete. Nothing is written.", stderr)
	path := addConfigFlag(fs)
	output := choiceFlag(fs, "o", "output format", "text", "json")
	timeout := fs.Duration("timeout", 30*time.Second, "how long to wait for clusters to be listed")
	logs := addLogFlags(fs)
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	watcher, code := openConfig("plan", *path, stderr)
	if watcher == nil {
		return code
	}
	loaded := watcher.Loaded()
	if err := usable(loaded); err != nil {
		printError(stderr, "plan", err)
		return exitUsage
	}
	*logs.verbosity -= int(slog.LevelWarn - slog.LevelInfo) // the plan is the output; states are not news here
	planning := app.New(loaded, app.Options{Path: *path, Build: appBuild(), Logger: logs.newLogger(stderr)})
	plans, missing, err := planning.Plan(ctx, *timeout)
	if err != nil {
		printError(stderr, "plan", err)
		return exitFailed
	}
	write := plan.WriteText
	if *output == "json" {
		write = plan.WriteJSON
	}
	if err := write(stdout, plans); err != nil {
		fmt.Fprintf(stderr, "tributary plan: write output: %v\n", err)
		return exitFailed
	}
	if len(missing) > 0 {
		for _, s := range missing {
			fmt.Fprintf(stderr, "tributary plan: cluster %s was not listed within %s (%s); what it contributes is taken as it stands\n", s.Name, *timeout, app.Describe(s))
		}
		return exitFailed
	}
	return exitOK
}
