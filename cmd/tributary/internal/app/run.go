// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/kubeconfig"
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
	r := New(watcher.Loaded(), o)
	r.metrics.Changes().Keep(o.Records)
	logger.Info("starting", "version", o.Build.Version, "config", o.Path, "clusters", len(watcher.Loaded().Config.Clusters))
	told := &config.Loaded{}
	tellAccess := func(now *config.Loaded) {
		logAccess(logger, told, now)
		told = now
	}
	tellAccess(watcher.Loaded())
	pages := newPages(ctx, r, logger)
	if err := pages.use(watcher.Loaded()); err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}

	var group sync.WaitGroup
	members := newSecretMembers(watcher.Offer, r.noteUnread, o)
	members.use(watcher.Loaded())
	group.Go(func() { members.run(ctx) })
	group.Go(func() { newRenewer(r.running, r.mayWrite, r.writeClient, o).run(ctx) })
	group.Go(func() {
		watcher.Run(ctx, func(update config.Update) {
			tellAccess(update.Loaded)
			members.use(update.Loaded)
			pages.follow(update.Loaded)
			r.apply(update)
		})
	})
	group.Go(func() { r.metrics.Prove(ctx) })
	endTraces := exportTraces(ctx, &group, r.metrics, o)
	err := r.run(ctx)
	cancel()
	endTraces()
	group.Wait()
	pages.wait()
	r.metrics.Flush()
	logger.Info("stopped")
	return err
}

// logAccess names the contexts that kubeconfigs choose by their current-context, and the tokens that cannot be renewed where
// they are kept, as far as that was not so before.
func logAccess(logger *slog.Logger, before, now *config.Loaded) {
	follows := func(was, is config.Access, attrs ...any) {
		if is.Followed != "" && is.Followed != was.Followed {
			logger.Warn("no context is named for a kubeconfig with several", append(attrs, "context", is.Context, "note", is.Followed)...)
		}
	}
	follows(before.Ingress, now.Ingress, "role", "ingress")
	for _, c := range now.Config.Clusters {
		was, is := before.Members[c.Name], now.Members[c.Name]
		follows(was, is, "cluster", c.Name)
		if is.Hash == was.Hash && is.File == was.File {
			continue
		}
		if why := NotRenewed(is, c.Context); why != "" {
			logger.Warn("a token will end", "cluster", c.Name, "ends", kubeconfig.Expires(is.REST), "note", why)
		}
	}
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
