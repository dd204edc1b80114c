// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
	"tributary.dev/tributary/metrics"
)

// runCommand replicates until the process is told to end.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := newFlagSet("run", "--config FILE [flags]", "Replicate the members' endpoints into the ingress cluster until SIGTERM.", stderr)
	path := addConfigFlag(fs)
	logs := addLogFlags(fs)
	records := fs.Int("records", metrics.DefaultRecords, "how many change records are remembered for trace, the page and exported traces; 0: none, and none is logged")
	if code, done := parseFlags(fs, args, stdout, stderr); done {
		return code
	}
	if *records < 0 {
		fmt.Fprintf(stderr, "tributary run: --records: %d is less than 0\n", *records)
		return exitUsage
	}
	watcher, code := openConfig("run", *path, stderr)
	if watcher == nil {
		return code
	}
	loaded := watcher.Loaded()
	if err := usable(loaded); err != nil {
		printError(stderr, "run", err)
		return exitUsage
	}
	logger := logs.newLogger(stderr)
	for _, fault := range loaded.Faults() {
		logger.Error("kubeconfig refused, this cluster waits until it is mended", "error", fault)
	}
	if err := app.Run(ctx, watcher, app.Options{Path: *path, Build: appBuild(), Records: *records, Logger: logger}); err != nil {
		printError(stderr, "run", err)
		return exitFailed
	}
	return exitOK
}

// usable reports why nothing could be replicated with these kubeconfigs: that
// of the ingress cluster is refused, or every member's. A refused kubeconfig
// among good ones concerns its member alone.
func usable(loaded *config.Loaded) error {
	if loaded.Ingress.REST == nil {
		return loaded.Ingress.Err
	}
	if len(loaded.Members) == 0 {
		return nil
	}
	for _, access := range loaded.Members {
		if access.REST != nil {
			return nil
		}
	}
	return loaded.Faults()
}

// printError writes one line for each fault, or the error as it is.
func printError(w io.Writer, command string, err error) {
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, fault := range faults {
			fmt.Fprintln(w, fault.Error())
		}
		return
	}
	fmt.Fprintf(w, "tributary %s: %v\n", command, err)
}

// appBuild is what the app says of this binary.
func appBuild() app.Build {
	v := readBuildVersion()
	return app.Build{Version: v.Version, Commit: v.Commit}
}
