// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/otlp"
)

// Run replicates until ctx is done: it wires everything together and owns its
// goroutines. The configuration is what the watcher has read, and follows it. It
// returns early only when the ingress cluster cannot be used with this configuration.
func Run(ctx context.Context, watcher *config.Watcher, o Options) error {
	logger := o.Logger
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	address := watcher.Loaded().Config.Listen
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("%s: listen: cannot serve at %q: %w; free the address or choose another", o.Path, address, err)
	}
	r := New(watcher.Loaded(), o)
	r.moved(listener.Addr().String())
	r.metrics.Changes().Keep(o.Records)
	pages := newPages(ctx, r, logger)
	pages.serve(listener)
	logger.Info("starting", "version", o.Build.Version, "config", o.Path, "listen", listener.Addr().String(), "clusters", len(watcher.Loaded().Config.Clusters))

	var group sync.WaitGroup
	members := newSecretMembers(watcher.Offer, o)
	members.use(watcher.Loaded())
	group.Go(func() { members.run(ctx) })
	group.Go(func() { newRenewer(r.running, r.mayWrite, o).run(ctx) })
	group.Go(func() {
		watcher.Run(ctx, func(update config.Update) {
			members.use(update.Loaded)
			if update.Diff.Listen {
				pages.move(update.Loaded.Config.Listen)
			}
			r.apply(update)
		})
	})
	endTraces := exportTraces(ctx, &group, r.metrics, o)
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
func exportTraces(ctx context.Context, group *sync.WaitGroup, m *metrics.Metrics, o Options) (end func()) {
	traces, err := otlp.New(ctx, otlp.Options{Changes: m.Changes(), Version: o.Build.Version, Logger: o.Logger})
	if err != nil {
		o.Logger.Error("changes are not exported as traces", "error", err)
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
	// moved is told the address of each new server.
	moved   func(address string)
	running sync.WaitGroup
	// stop ends the server in use; only the goroutine of the configuration's
	// watcher calls move.
	stop context.CancelFunc
}

func newPages(ctx context.Context, r *App, logger *slog.Logger) *pages {
	return &pages{ctx: ctx, handler: Handler(r.metrics.Handler(), r.set.Release), logger: logger, moved: r.moved}
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
	p.moved(listener.Addr().String())
	p.logger.Info("serving at a new address", "listen", listener.Addr().String())
}

func (p *pages) wait() {
	p.stop()
	p.running.Wait()
}
