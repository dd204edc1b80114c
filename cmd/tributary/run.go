// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/otlp"
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
	if err := replicate(ctx, watcher, *path, *records, logger); err != nil {
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

// replicate wires everything together and owns its goroutines.
func replicate(ctx context.Context, watcher *config.Watcher, path string, records int, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	address := watcher.Loaded().Config.Listen
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: listen: cannot serve at %q: %w; free the address or choose another", path, address, err)
	}
	r := newReplicator(path, watcher.Loaded(), logger)
	r.metrics.Changes().Keep(records)
	pages := newPages(ctx, r, logger)
	pages.serve(listener)
	logger.Info("starting", "version", readBuildVersion().Version, "config", path, "listen", listener.Addr().String(), "clusters", len(watcher.Loaded().Config.Clusters))

	var group sync.WaitGroup
	group.Go(func() {
		watcher.Run(ctx, func(update config.Update) {
			if update.Diff.Listen {
				pages.move(update.Loaded.Config.Listen)
			}
			r.apply(update)
		})
	})
	endTraces := exportTraces(ctx, &group, r.metrics, logger)
	err = r.run(ctx)
	cancel()
	endTraces()
	group.Wait()
	pages.wait()
	r.metrics.Flush()
	logger.Info("stopped")
	return err
}

// exportTraces sends the change records to a collector when the environment
// asks for it. What it returns ends that, after the last change was reported.
func exportTraces(ctx context.Context, group *sync.WaitGroup, m *metrics.Metrics, logger *slog.Logger) (end func()) {
	traces, err := otlp.New(ctx, otlp.Options{Changes: m.Changes(), Version: readBuildVersion().Version, Logger: logger})
	if err != nil {
		logger.Error("changes are not exported as traces", "error", err)
	}
	ctx, end = context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() { traces.Run(ctx) })
	return end
}

// pages serves the HTTP pages and moves them when `listen` is edited.
type pages struct {
	ctx     context.Context
	handler http.Handler
	logger  *slog.Logger
	running sync.WaitGroup
	// stop ends the server in use; only the goroutine of the configuration's
	// watcher calls move.
	stop context.CancelFunc
}

func newPages(ctx context.Context, r *replicator, logger *slog.Logger) *pages {
	return &pages{ctx: ctx, handler: handler(r.metrics.Handler(), r.set.Release), logger: logger}
}

func (p *pages) serve(listener net.Listener) {
	ctx, stop := context.WithCancel(p.ctx)
	p.stop = stop
	p.running.Go(func() {
		if err := metrics.Serve(ctx, listener, p.handler, p.logger); err != nil && ctx.Err() == nil {
			p.logger.Error("serving the pages failed", "listen", listener.Addr().String(), "error", err)
		}
	})
}

// move serves at another address: the new one is bound before the old one is
// let go.
func (p *pages) move(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		p.logger.Error("cannot serve at the new address, the former one stays", "listen", address, "error", err)
		return
	}
	p.stop()
	p.serve(listener)
	p.logger.Info("serving at a new address", "listen", listener.Addr().String())
}

func (p *pages) wait() {
	p.stop()
	p.running.Wait()
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
