// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

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

// Options say what an App is. All fields must be set.
type Options struct {
	// Path is the configuration file, for messages.
	Path   string
	Build  Build
	Logger *slog.Logger
}

// Build is what a binary says of itself.
type Build struct{ Version, Commit string }

// App is a Tributary: the members on one side, the ingress cluster on the other, and the
// configuration that may change under both.
type App struct {
	Options
	started    time.Time
	metrics    *metrics.Metrics
	ingress    *ingress
	permit     *leader.Permit
	set        *clusters.Set
	source     *source
	reconciler *reconcile.Reconciler
	identities *reconcile.Identities
	sinks      *sinks.Set
	// elector is nil until the pages are served.
	elector atomic.Pointer[leader.Elector]
	// ready latches: once everything that could be seen was seen, a restart would
	// not make this process any readier.
	ready atomic.Bool

	// applying guards known: whether it is known which cluster each member is.
	applying sync.Mutex
	known    bool
	// joining is closed when the first members are there: nobody writes before.
	joining chan struct{}

	mu sync.Mutex
	// All below is guarded by mu. loaded is what runs, since when, and joined when each
	// member was configured.
	loaded   *config.Loaded
	loadedAt time.Time
	joined   map[string]time.Time
	// secrets ends the following of the Secrets that are members, selector is how they are
	// selected; nil and empty: none are wanted.
	secrets  context.CancelFunc
	selector string
	watcher  *config.Watcher
}

// New returns an App of a configuration that does nothing until it is run.
func New(watcher *config.Watcher, o Options) *App {
	loaded := watcher.Loaded()
	a := &App{
		Options: o, started: time.Now(), permit: &leader.Permit{}, source: &source{},
		loaded: loaded, loadedAt: time.Now(), joined: map[string]time.Time{}, watcher: watcher,
		joining: make(chan struct{}),
	}
	a.metrics = metrics.New(metrics.Options{Logger: o.Logger, Version: o.Build.Version, Revision: o.Build.Commit, Status: a.status})
	a.ingress = newIngress(loaded, a.permit, a.metrics, o.Build.Version, o.Logger)
	a.sinks = sinks.New(sinks.Options{
		Instance: loaded.Config.Instance, Version: o.Build.Version, Hold: a.permit.Hold, Logger: o.Logger,
		Observe: func(sink, result string, _ time.Duration) { a.metrics.SinkRequest(sink, result) },
	})
	a.set = clusters.NewSet(clusters.Options{
		Sink: a, Standing: a.standing, Identity: a.identity, Learned: a.learned, NativeLag: a.metrics.NativeLag, Version: o.Build.Version, Logger: o.Logger,
		Wrap: func(member string) func(roundTripper) roundTripper {
			return a.metrics.Transport(metrics.RoleMember, member)
		},
	})
	a.source.set = a.set
	a.source.use(loaded)
	a.reconciler = reconcile.New(reconcile.Options{
		Access: a.ingress.follow.Access, Write: a.ingress.write.Access, Source: a.source, Permit: a.permit, Sinks: a.sinks, Metrics: a.metrics,
		Instance: loaded.Config.Instance, Events: reconcile.NewEvents("tributary", a.events, o.Logger), Logger: o.Logger,
	})
	a.identities = reconcile.NewIdentities(a.ingress.write.Access, a.permit, loaded.Config.Namespace, loaded.Config.Instance, a.set.Recorded, o.Logger)
	a.adopt(loaded)
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
	a := New(watcher, o)
	pages, err := listen(loaded.Config, a.metrics, a.handler(), o.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	a.elector.Store(leader.New(a.election(loaded, pages.address())))
	a.report(loaded)

	var group sync.WaitGroup
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var last sync.WaitGroup // what serves until the others have ended
	last.Go(func() { pages.run(serving) })
	traces, err := otlp.New(ctx, otlp.Options{Changes: a.metrics.Changes(), Version: o.Build.Version, Logger: o.Logger})
	if err != nil {
		o.Logger.Error("changes are not exported as traces", "error", err)
	}
	last.Go(func() { traces.Run(serving) })
	group.Go(func() { a.ingress.run(serving) })
	a.follow(ctx, &group)
	var leading sync.WaitGroup
	leading.Go(func() {
		a.ingress.ownNamespace(ctx, loaded.Config.Namespace, a.labels())
		a.elector.Load().Run(ctx, a.lead)
	})
	group.Go(func() { watcher.Run(ctx, func(loaded *config.Loaded) { a.apply(ctx, loaded) }) })
	<-ctx.Done()
	o.Logger.Info("stopping")
	// The Lease is released through the ingress cluster's connections: they end last.
	leading.Wait()
	stopServing()
	group.Wait()
	last.Wait()
	o.Logger.Info("stopped")
	return nil
}

// handler is that of all pages.
func (a *App) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler(a.metrics, a.Logger))
	mux.Handle("GET "+ExplainPath, a.explainHandler())
	return mux
}

// follow follows the ingress cluster and the members, both from the start: what stands is a
// member's share until it has been listed.
func (a *App) follow(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() { a.reconciler.Follow(ctx) })
	group.Go(func() { a.identities.Run(ctx) })
	a.followSecrets(ctx, a.running())
	group.Go(func() {
		if a.identityRead(ctx) {
			a.applyMembers(true)
			a.set.Run(ctx)
		}
	})
	group.Go(func() { a.onceListed(ctx) })
}

// lead writes until ctx is done: this process leads for as long.
func (a *App) lead(ctx context.Context) {
	a.awaitSecrets(ctx)
	select {
	case <-ctx.Done():
		return
	case <-a.joining: // or what stands would be taken for that of clusters that left
	}
	var group sync.WaitGroup
	a.set.Lead()
	group.Go(func() { a.reconciler.Lead(ctx) })
	renewer := &renewer{loaded: a.running, ingress: a.ingress.write.clientset, version: a.Build.Version, logger: a.Logger, failed: map[string]string{}}
	group.Go(func() { renewer.run(ctx) })
	group.Wait()
}

// awaitSecrets waits until the members that are Secrets are known, so that a start does not
// take them for clusters that left; not for ever, since those of the file need no Secret.
func (a *App) awaitSecrets(ctx context.Context) {
	for a.running().SecretsUnread && time.Since(a.started) < readyAfter {
		select {
		case <-ctx.Done():
			return
		case <-time.After(listedLook / 10):
		}
	}
}

// election are the options of the elector.
func (a *App) election(loaded *config.Loaded, address string) leader.Options {
	c := loaded.Config
	return leader.Options{
		Client: a.ingress.elect.clientset, Namespace: c.Namespace, Name: LeasePrefix + c.Instance, Identity: holder(loaded, address),
		Labels:        a.labels(),
		LeaseDuration: c.LeaderElection.LeaseDuration.Value(), Disabled: !c.LeaderElection.Enabled, Permit: a.permit, Logger: a.Logger,
	}
}

// labels are those of what is ours beside replicas.
func (a *App) labels() map[string]string {
	return map[string]string{syncer.LabelManagedBy: syncer.ManagedBy, syncer.LabelInstance: a.running().Config.Instance}
}

// events is the client by which Events are posted.
func (a *App) events() kubernetes.Interface {
	if session := a.ingress.follow.Current(); session != nil {
		return session.Clientset()
	}
	return nil
}

// running is the configuration that runs.
func (a *App) running() *config.Loaded {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.loaded
}

// apply takes news from the configuration's files.
func (a *App) apply(ctx context.Context, loaded *config.Loaded) {
	former := a.running()
	a.report(loaded)
	if loaded.Config != former.Config || loaded.Refused != former.Refused {
		a.metrics.ConfigReload(loaded.Refused)
	}
	a.ingress.use(loaded.Ingress)
	a.source.use(loaded)
	a.adopt(loaded)
	a.followSecrets(ctx, loaded)
	if loaded.Config != former.Config {
		a.reconciler.CompareAll(record.EventConfigured)
	}
}

// adopt makes a configuration the running one.
func (a *App) adopt(loaded *config.Loaded) {
	now := time.Now()
	a.mu.Lock()
	if a.loaded.Config != loaded.Config {
		a.loadedAt = now
	}
	a.loaded = loaded
	present := map[string]bool{}
	for _, c := range loaded.Config.Clusters {
		present[c.Name] = true
		if _, known := a.joined[c.Name]; !known {
			a.joined[c.Name] = now
			a.metrics.AddCluster(c.Name)
		}
	}
	for name := range a.joined {
		if !present[name] {
			delete(a.joined, name)
			a.metrics.RemoveCluster(name)
			a.Logger.Info("member removed from the configuration", "cluster", name)
		}
	}
	a.mu.Unlock()
	a.applyMembers(false)
	specs := sinkSpecs(loaded.Config)
	for _, k := range a.sinks.Status() {
		if !named(specs, k.Name) {
			a.metrics.RemoveSink(k.Name)
		}
	}
	a.sinks.Configure(specs)
}

// applyMembers makes the members those of the configuration, from when on it is known by
// which identities they are on record.
func (a *App) applyMembers(known bool) {
	a.applying.Lock()
	defer a.applying.Unlock()
	first := known && !a.known
	if a.known = a.known || known; a.known {
		a.set.Apply(clusters.SettingsOf(a.running()))
	}
	if first {
		close(a.joining)
	}
}

// report says what is wrong with a configuration, as far as it was not said before.
func (a *App) report(loaded *config.Loaded) {
	former := a.running()
	first := former == loaded
	if loaded.Refused != nil && (first || former.Refused == nil || former.Refused.Error() != loaded.Refused.Error()) {
		a.Logger.Error("configuration refused, the running one stays", "file", a.Path, "error", loaded.Refused)
	}
	if !first && loaded.Config != former.Config {
		a.Logger.Info("configuration reloaded", "file", a.Path)
	}
	if len(loaded.Restart) > 0 && fmt.Sprint(loaded.Restart) != fmt.Sprint(former.Restart) {
		a.Logger.Warn("a change of the configuration waits for a restart", "fields", loaded.Restart)
	}
	told := func(was, is config.Access, attrs ...any) {
		if is.Err != nil && (first || was.Err == nil || was.Err.Error() != is.Err.Error()) {
			a.Logger.Error("kubeconfig refused, the former connection stays", append(attrs, "error", is.Err)...)
		}
		if is.Note != "" && (first || is.Note != was.Note) {
			a.Logger.Warn("about a kubeconfig", append(attrs, "context", is.Context, "note", is.Note)...)
		}
	}
	told(former.Ingress, loaded.Ingress, "role", "ingress")
	for _, c := range loaded.Config.Clusters {
		was, is := former.Members[c.Name], loaded.Members[c.Name]
		told(was, is, "cluster", c.Name)
		if why := NotRenewed(is); why != "" && (first || was.Hash != is.Hash) {
			a.Logger.Warn("a token will end", "cluster", c.Name, "note", why)
		}
	}
}

// followSecrets follows the Secrets that the configuration wants as members.
func (a *App) followSecrets(ctx context.Context, loaded *config.Loaded) {
	selector := ""
	if from := loaded.Config.ClustersFrom.Secrets; from != nil {
		selector = from.Selector
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if selector == a.selector {
		return
	}
	if a.secrets != nil {
		a.secrets()
	}
	if a.selector, a.secrets = selector, nil; selector != "" {
		following, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			followSecrets(following, a.ingress.follow.Access, loaded.Config, a.watcher.Offer, a.Logger)
		}()
		a.secrets = func() { stop(); <-done }
	}
}
