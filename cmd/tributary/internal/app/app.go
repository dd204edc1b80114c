// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/otlp"
	"tributary.dev/tributary/metrics/page"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/syncer"
)

// Options say what an App is. All exported fields must be set.
type Options struct {
	// Path is the configuration file, for messages.
	Path   string
	Build  Build
	Logger *slog.Logger
	// export is called with every change record, if traces are exported.
	export func(*record.Change)
}

// Build is what a binary says of itself.
type Build struct{ Version, Commit string }

// App is a Tributary: the members on one side, the ingress cluster on the other, and the
// configuration that may change under both.
type App struct {
	Options
	started    time.Time
	metrics    *metrics.Metrics
	watcher    *config.Watcher
	ingress    *ingress
	permit     *leader.Permit
	set        *clusters.Set
	reconciler *reconcile.Reconciler
	identities *reconcile.Identities
	sinks      *sinks.Set
	// settings are those of the configuration that runs.
	settings atomic.Pointer[reconcile.Settings]
	// elector is nil until the pages are served.
	elector atomic.Pointer[leader.Elector]
	// ready latches: once everything that could be seen was seen, a restart would
	// not make this process any readier.
	ready atomic.Bool

	// joined is closed when the first members are there, which is once it was read which
	// cluster each is (recorded): nobody writes before. applying guards recorded.
	joined   chan struct{}
	applying sync.Mutex
	recorded bool

	// loaded is the configuration that runs, and loadedAt since when.
	loaded   atomic.Pointer[config.Loaded]
	loadedAt atomic.Pointer[time.Time]
}

// New returns an App of a configuration that does nothing until it is run.
func New(watcher *config.Watcher, o Options) *App {
	loaded := watcher.Loaded()
	a := &App{Options: o, started: time.Now(), watcher: watcher, permit: &leader.Permit{}, joined: make(chan struct{})}
	a.loaded.Store(loaded)
	a.loadedAt.Store(&a.started)
	a.metrics = metrics.New(metrics.Options{Logger: o.Logger, Revision: o.Build.Commit, Export: o.export, Status: a.status})
	a.ingress = newIngress(loaded, a.permit, a.metrics, o.Build.Version, o.Logger)
	a.sinks = sinks.New(sinks.Options{
		Instance: loaded.Config.Instance, Version: o.Build.Version, Hold: a.permit.Hold, Logger: o.Logger,
		Observe: a.metrics.SinkRequest,
	})
	recorded := func(member string) { a.set.Recorded(member) } // of the set that is made with them
	a.identities = reconcile.NewIdentities(a.ingress.write, a.permit, loaded.Config.Namespace, loaded.Config.Instance, recorded, o.Logger)
	a.set = clusters.NewSet(clusters.Options{
		Dirty: a.dirty, Listed: a.onceListed, Published: a.published, Identity: a.identities.Known, Learned: a.identities.Found, NativeLag: a.metrics.NativeLag, Version: o.Build.Version, Logger: o.Logger,
		Wrap: a.metrics.Transport,
	})
	a.reconciler = reconcile.New(reconcile.Options{
		Access: a.ingress.follow, Write: a.ingress.write, Source: a, Permit: a.permit, Sinks: a.sinks, Metrics: a.metrics,
		Instance: loaded.Config.Instance, Logger: o.Logger,
	})
	a.use(&config.Loaded{Config: &config.Config{}}, loaded)
	return a
}

// Run replicates until ctx is done: it wires everything together and owns its
// goroutines. The configuration is what the watcher has read, and follows it. It
// returns early only when the pages cannot be served.
func Run(ctx context.Context, watcher *config.Watcher, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := watcher.Loaded()
	o.Logger.Info("starting", "version", o.Build.Version, "config", o.Path, "clusters", len(loaded.Config.Clusters))
	traces, err := otlp.New(ctx, o.Build.Version, o.Logger)
	if err != nil {
		o.Logger.Error("changes are not exported as traces", "error", err)
	}
	defer traces.Shutdown()
	o.export = traces.Export
	a := New(watcher, o)
	pages, err := listen(loaded.Config, a.metrics, a.handler(), o.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	a.elector.Store(a.newElector(loaded, pages[0].listener.Addr().String()))

	var group sync.WaitGroup
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var last sync.WaitGroup // what serves until the others have ended
	for _, p := range pages {
		last.Go(func() {
			if err := page.Serve(serving, p.listener, p.handler, o.Logger); err != nil {
				o.Logger.Error("serving the pages failed", "error", err)
			}
		})
	}
	a.follow(ctx, &group)
	var leading sync.WaitGroup
	leading.Go(func() {
		a.ingress.ownNamespace(ctx, loaded.Config.Namespace, syncer.OwnLabels(loaded.Config.Instance))
		a.elector.Load().Run(ctx, a.lead)
	})
	<-ctx.Done()
	o.Logger.Info("stopping")
	// The Lease is released through the ingress cluster's connections: they end last.
	leading.Wait()
	stopServing()
	a.ingress.close()
	group.Wait()
	last.Wait()
	o.Logger.Info("stopped")
	return nil
}

// handler is that of all pages.
func (a *App) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(a.metrics, a.Logger))
	mux.HandleFunc("GET "+ExplainPath, a.explainHandler)
	return mux
}

// follow follows the configuration, the ingress cluster and the members, all from the start:
// what is published of a member is its share until it has been listed.
func (a *App) follow(ctx context.Context, group *sync.WaitGroup) {
	secrets := &secrets{access: a.ingress.follow, running: a.running, offer: a.watcher.Offer, logger: a.Logger}
	group.Go(func() { a.watcher.Run(ctx, a.apply) })
	group.Go(func() { secrets.run(ctx) })
	group.Go(func() { a.reconciler.Follow(ctx) })
	group.Go(func() { a.identities.Run(ctx) })
	group.Go(func() {
		if a.identities.Wait(ctx) != nil {
			return
		}
		a.applyMembers(true)
		close(a.joined)
		a.set.Run(ctx)
	})
}

// lead writes until ctx is done: this process leads for as long. It begins when all members are
// known, or what is published of them would count as that of removed clusters: those
// that are Secrets are waited for, but not for ever, since those of the file need no Secret.
func (a *App) lead(ctx context.Context) {
	_ = wait.PollUntilContextTimeout(ctx, planLook, readyAfter, true, func(context.Context) (bool, error) { return !a.running().SecretsUnread, nil })
	select {
	case <-ctx.Done():
		return
	case <-a.joined:
	}
	var group sync.WaitGroup
	a.set.Lead()
	group.Go(func() { a.reconciler.Lead(ctx) })
	renewer := &renewer{loaded: a.running, ingress: clientOf(a.ingress.write), version: a.Build.Version, logger: a.Logger, failed: map[string]string{}}
	group.Go(func() { renewer.run(ctx) })
	group.Wait()
}

// running is the configuration that runs.
func (a *App) running() *config.Loaded { return a.loaded.Load() }

// apply applies news of the configuration's files, or of Secrets.
func (a *App) apply(loaded *config.Loaded) {
	former := a.running()
	changed := loaded.Config != former.Config
	if changed {
		a.loadedAt.Store(new(time.Now()))
		a.Logger.Info("configuration reloaded", "file", a.Path)
	}
	if changed || loaded.Refused != former.Refused {
		a.metrics.ConfigReload(loaded.Refused)
	}
	a.loaded.Store(loaded)
	a.use(former, loaded)
	if changed || loaded.SecretsUnread != former.SecretsUnread {
		a.compareAll(record.EventConfigured)
	}
}

// use hands a configuration, in place of a former one, to all who go by it.
func (a *App) use(former, loaded *config.Loaded) {
	told := problems(former)
	for _, problem := range problems(loaded) {
		if !slices.Contains(told, problem) {
			a.Logger.Warn("configuration", "problem", problem)
		}
	}
	a.ingress.use(loaded.Ingress)
	settings := settingsOf(loaded.Config)
	if !settings.DropOrphans { // members that go leave orphans, which are kept from now on
		a.settings.Store(settings)
		a.reconciler.Step(func(*reconcile.Core, time.Time) {}) // a comparison that goes by the former ends
	}
	for _, c := range former.Config.Clusters {
		if _, stays := loaded.Members[c.Name]; !stays {
			a.Logger.Info("member removed from the configuration", "cluster", c.Name)
		}
	}
	a.applyMembers(false)
	a.settings.Store(settings) // members that come are no orphans any more
	a.sinks.Configure(sinkSpecs(loaded.Config))
}

// applyMembers sets the members to those of the configuration, once it is known which cluster
// each is.
func (a *App) applyMembers(recorded bool) {
	a.applying.Lock()
	defer a.applying.Unlock()
	a.recorded = a.recorded || recorded
	if a.recorded {
		a.set.Apply(clusters.SettingsOf(a.running()))
	}
}

// refusedOf are the Secrets and kubeconfigs of a configuration that are not used as they are, each with the reason.
func refusedOf(loaded *config.Loaded) (all []string) {
	for _, err := range loaded.SecretErrors {
		all = append(all, err.Error())
	}
	for _, c := range loaded.Config.Clusters {
		if err := loaded.Members[c.Name].Err; err != nil {
			all = append(all, fmt.Sprintf("the kubeconfig or the settings of cluster %s are refused: %v", c.Name, err))
		}
	}
	if err := loaded.Ingress.Err; err != nil {
		all = append(all, fmt.Sprintf("the kubeconfig of the ingress cluster is refused: %v", err))
	}
	return all
}

// problems are all that an operator should know of a configuration: each is logged when it is news.
func problems(loaded *config.Loaded) []string {
	all := refusedOf(loaded)
	if loaded.Refused != nil {
		all = append(all, "configuration refused, the running one stays: "+loaded.Refused.Error())
	}
	for _, field := range loaded.Restart {
		all = append(all, "a change of "+field+" waits for a restart")
	}
	return all
}

// text is what an error says; "" without one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
