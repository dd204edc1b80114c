// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/cmd/tributary/internal/app"
)

// newRunCommand replicates until the process is told to end.
func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Replicate the members' endpoints into the ingress cluster until SIGTERM", Args: cobra.NoArgs,
		Example: "  tributary run --config tributary.yaml\n  tributary run --config tributary.yaml --log-format json -v 1",
	}
	path := addConfigFlag(cmd)
	format := addChoice(cmd, "log-format", "", "log format", "text", "json")
	verbosity := cmd.Flags().IntP("v", "v", 0, "log verbosity: 0 changes and states, 1 and more what the client libraries report as well")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		watcher, err := openConfig(*path)
		if err != nil {
			return err
		}
		if os.Getenv("GOGC") == "" { // most of the memory is live: to collect twice as often costs little, and a quarter less is used
			debug.SetGCPercent(50)
		}
		logger := newLogger(cmd.ErrOrStderr(), *format, slog.LevelInfo-slog.Level(*verbosity))
		return app.Run(cmd.Context(), watcher, app.Options{Path: *path, Build: build(), Logger: logger})
	}
	return cmd
}

// openConfig reads the configuration of what cannot begin without an ingress cluster. A kubeconfig
// that is refused concerns its member alone.
func openConfig(path string) (*config.Watcher, error) {
	watcher, err := config.Open(path)
	if err == nil && watcher.Loaded().Ingress.REST == nil {
		err = watcher.Loaded().Ingress.Err
	}
	if err != nil {
		return nil, usage{err}
	}
	return watcher, nil
}

// libraries is done once: klog and log have one logger a process, which nothing may replace
// while somebody logs.
var libraries sync.Once

// newLogger builds the process's logger on w, and has the client libraries log to it, too,
// where levels below Info are shown. Above, what they report (a request that is tried again,
// say) is no news of its own: the change of state behind it is logged by us once.
func newLogger(w io.Writer, format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	if level < slog.LevelInfo {
		logLibraries(handler)
	} else {
		logLibraries(slog.DiscardHandler)
	}
	return slog.New(handler)
}

// logLibraries makes libraries log to a handler. By log, net/http quotes what others sent after
// the end of an answer: that is shown last of all.
func logLibraries(handler slog.Handler) {
	libraries.Do(func() {
		klog.SetSlogLogger(slog.New(handler))
		log.SetFlags(0)
		log.SetOutput(slog.NewLogLogger(handler, slog.LevelDebug).Writer())
	})
}
