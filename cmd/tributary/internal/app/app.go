// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/sinks"
)

// Options say what an App is. All fields but Records must be set.
type Options struct {
	// Path is the configuration file, for messages.
	Path  string
	Build Build
	// Records is how many change records are kept; 0: none.
	Records int
	Logger  *slog.Logger
}

// Build is what a binary says of itself.
type Build struct{ Version, Commit string }

// App is a running Tributary: the members on one side, the ingress
// cluster on the other, and the configuration that may change under both.
type App struct {
	path        string
	build       Build
	started     time.Time
	logger      *slog.Logger
	metrics     *metrics.Metrics
	set         *clusters.Set
	source      *source
	sink        *sink
	sinks       *sinks.Set
	annotations annotationFilter
	// ingress is the session in use; nil until the ingress cluster was reached.
	ingress atomic.Pointer[ingressSession]
	// ready latches: once everything that could be seen was seen, a restart would
	// not make this process any readier.
	ready atomic.Bool
	// looked is set once every replica is looked at, whoever of the members is seen.
	looked atomic.Bool
	// begun is set once the members are there and may be announced.
	begun atomic.Bool
	// phase is where the life of this instance stands; only run changes it.
	phase atomic.Int32

	// applying is held while a configuration is passed on, from reading which one runs
	// to the last that is told: otherwise an older one could be told after a newer.
	applying sync.Mutex

	mu sync.Mutex
	// All below is guarded by mu. loaded is what runs, refused why the file on disk
	// is not that, ingressErr why the ingress cluster could not be opened, secretsErr why
	// the Secrets of members are not read.
	loaded     *config.Loaded
	loadedAt   time.Time
	refused    error
	ingressErr error
	secretsErr error
	// joined is when each member was configured, announced what the reconciler was told of it.
	joined    map[string]time.Time
	announced map[string]clusters.MemberState
	// identities are those by which members are known; see identities.go.
	identities map[string]string
	// panics are when the panics began of the members that are in one, or were when this
	// process began and have not been read whole since.
	panics map[string]time.Time
	// kept is what was last said about clusters that are not configured.
	kept map[string]int
	// address is where the pages are served.
	address string
	// news is signalled when the facts may have changed that run goes by.
	news chan struct{}
	// secretsRead is closed once the Secrets that are members have been read, or none
	// are wanted.
	secretsRead     chan struct{}
	secretsReadOnce sync.Once
}

// New returns an App of a configuration that does nothing until it is run.
func New(loaded *config.Loaded, o Options) *App {
	now := time.Now()
	r := &App{
		path: o.Path, build: o.Build, started: now, logger: o.Logger, sink: &sink{},
		secretsRead: make(chan struct{}),
		loaded:      loaded, loadedAt: now, joined: map[string]time.Time{}, announced: map[string]clusters.MemberState{}, news: make(chan struct{}, 1), address: loaded.Config.Listen,
	}
	r.metrics = metrics.New(metrics.Options{Logger: o.Logger, Version: o.Build.Version, Revision: o.Build.Commit, Status: r.status, NotReady: r.notReady, Leader: r.leader})
	r.annotations.set(&loaded.Config)
	r.sinks = sinks.New(sinks.Options{Instance: loaded.Config.Instance, Version: o.Build.Version, Observe: r.metrics.SinkRequest, Removed: r.metrics.RemoveSink, Logger: o.Logger})
	r.sinks.Configure(sinkSpecs(o.Path, &loaded.Config))
	options := setOptions(r.sink, r.annotations.keeps, r.metrics, o.Logger, r.memberChanged)
	options.Version = o.Build.Version
	options.Standing, options.Pinned, options.PanicAt = r.standing, r.pinned, r.panicAt
	r.set = clusters.NewSet(options)
	r.source = &source{set: r.set, first: loaded}
	for _, c := range loaded.Config.Clusters {
		r.joined[c.Name] = now
		r.metrics.AddCluster(c.Name)
	}
	return r
}

// begin uses the first session and makes the members, in an order that makes neither
// guess: what stands was listed before any member is asked, by which identity each was
// known is read before it is made, and nothing is looked at or written, no Lease either,
// before all that are configured are there.
func (r *App) begin(ctx context.Context, session *ingressSession) {
	r.logger.Info("ingress cluster listed", "version", session.watch.Version().String(), "replicas", session.reconciler.Owned())
	r.awaitSecrets(ctx)
	r.readIdentities(ctx, session)
	r.applying.Lock()
	r.use(session)
	r.applyMembers()
	r.begun.Store(true)
	r.applying.Unlock()
	session.serve(r.keepLeases, r.keepInventory, r.tellSinks)
	r.lookOnceSettled(session.reconciler)
	r.reportKept(session.reconciler)
}

// running is the configuration that runs.
func (r *App) running() *config.Loaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// applyMembers makes the set equal to the configuration. The caller holds applying.
func (r *App) applyMembers() {
	removed := r.set.Apply(r.running())
	r.forgetMembers(removed)
	for _, name := range removed {
		r.logger.Info("member removed from the configuration", "cluster", name)
	}
}

// reportKept says what stands of clusters that are not configured and what becomes of
// it, if that is news.
func (r *App) reportKept(to *reconcile.Reconciler) {
	stay, leave := to.Kept()
	r.mu.Lock()
	before := r.kept
	r.kept = stay
	orphans := r.loaded.Config.Replicas.Orphans
	r.mu.Unlock()
	for _, cluster := range sortedKeys(leave) {
		r.logger.Warn("endpoints of a cluster that is not configured are taken away", "cluster", cluster, "replicas", leave[cluster])
	}
	for _, cluster := range sortedKeys(stay) {
		switch replicas := stay[cluster]; {
		case before[cluster] == replicas:
		case orphans == config.OrphansDelete:
			r.logger.Warn("endpoints of a cluster that is not configured stay until all members have been read", "cluster", cluster, "replicas", replicas)
		default:
			r.logger.Warn("endpoints of a cluster that is not configured stay as they are; to be rid of them put the cluster back with drain: true, or set replicas.orphans: delete",
				"cluster", cluster, "replicas", replicas)
		}
	}
}

// apply takes news from the configuration's files.
func (r *App) apply(update config.Update) {
	if update.Err != nil {
		r.refuse(update.Err, update.Reloaded)
	} else if update.Reloaded {
		r.metrics.ConfigReload(nil)
		r.logger.Info("configuration reloaded", "file", r.path)
	}
	r.applying.Lock()
	defer r.applying.Unlock()
	wereUnread := r.running().SecretsUnread // then members that are new may be known
	r.adopt(update)
	r.reportRefused(update)
	diff := update.Diff
	sinksChange := func() bool { return diff.Sinks && r.sinks.Configure(sinkSpecs(r.path, &update.Loaded.Config)) }
	r.signal()
	if !r.begun.Load() {
		sinksChange()
		return // nothing runs yet that could be changed; it will start with what was adopted
	}
	to := r.sink.to.Load()
	r.forgetIdentities(r.ingress.Load(), func(name string) bool { return wereUnread || !slices.Contains(diff.Added, name) })
	r.applyMembers()
	if diff.Annotations {
		r.set.Relist("")
	}
	if diff.Replicas || diff.Policy || len(diff.Removed) > 0 {
		r.reportKept(to) // which counts what stands before it goes
		to.Resync("", "config")
	}
	if sinksChange() { // at last: it waits for requests in flight
		to.Resync("", "config")
	}
}

// adopt makes a configuration the running one: what was read, with kubeconfigs that
// are new, or the former one where the file was refused.
func (r *App) adopt(update config.Update) {
	now, loaded := time.Now(), update.Loaded
	r.noteSecretsRead(loaded)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded != loaded {
		r.loaded = loaded
		r.annotations.set(&loaded.Config)
	}
	if update.Reloaded && update.Err == nil {
		r.loadedAt = now
	}
	r.refused = update.Err
	present := map[string]bool{}
	for _, c := range loaded.Config.Clusters {
		present[c.Name] = true
		if _, known := r.joined[c.Name]; !known {
			r.joined[c.Name] = now
			r.metrics.AddCluster(c.Name)
		}
	}
	for name := range r.joined {
		if !present[name] {
			delete(r.joined, name)
			r.metrics.RemoveCluster(name)
		}
	}
}

func (r *App) refuse(err error, news bool) {
	if !news {
		return
	}
	r.metrics.ConfigReload(err)
	r.logger.Error("configuration refused, the running one stays", "file", r.path, "error", err)
}

// reportRefused says which kubeconfigs are refused, for a reason that is new.
func (r *App) reportRefused(update config.Update) {
	for _, fault := range update.SecretFaults {
		r.logger.Error("settings of a member's Secret refused", "error", fault)
	}
	for _, name := range update.Diff.Refused {
		if update.Loaded.Members[name].RefusedSettings {
			continue // said above
		}
		r.logger.Error("kubeconfig refused, the former connection stays", "cluster", name, "error", update.Loaded.Members[name].Err)
	}
	if update.Diff.IngressRefused {
		r.logger.Error("kubeconfig of the ingress cluster refused, the former connection stays", "error", update.Loaded.Ingress.Err)
	}
}

// readyAfter is how long an unreachable member may hold back readiness.
const readyAfter = 15 * time.Second

// notReady lists what readiness waits for; nothing means ready.
func (r *App) notReady() []string {
	if r.ready.Load() {
		return nil
	}
	var reasons []string
	if session := r.ingress.Load(); session == nil || !session.reconciler.Synced() {
		reasons = append(reasons, "the ingress cluster has not been listed yet")
	}
	if r.running().SecretsUnread && time.Since(r.started) < readyAfter {
		reasons = append(reasons, "the Secrets of members have not been listed yet")
	}
	r.mu.Lock()
	joined := maps.Clone(r.joined)
	r.mu.Unlock()
	states := map[string]clusters.Status{}
	for _, s := range r.set.Conditions() {
		states[s.Name] = s
	}
	for _, name := range sortedKeys(joined) {
		s := states[name]
		if !s.Synced && (s.State == string(clusters.Syncing) || time.Since(joined[name]) < readyAfter) {
			reasons = append(reasons, fmt.Sprintf("cluster %s has not been listed yet", name))
		}
	}
	if len(reasons) == 0 {
		r.ready.Store(true)
		r.logger.Info("ready")
	}
	return reasons
}

var _ reconcile.Source = (*source)(nil)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
