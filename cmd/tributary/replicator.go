// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile"
)

// replicator is a running Tributary: the members on one side, the ingress
// cluster on the other, and the configuration that may change under both.
type replicator struct {
	path    string
	started time.Time
	logger  *slog.Logger
	metrics *metrics.Metrics
	set     *clusters.Set
	sink    *sink
	keeper  keeper
	// ingress is the side in use; nil until the ingress cluster was reached.
	ingress atomic.Pointer[ingressSide]
	// ready latches: once everything that could be seen was seen, a restart would
	// not make this process any readier.
	ready atomic.Bool
	// looked is set once every replica is looked at, whoever of the members is seen.
	looked atomic.Bool
	// begun is set once the members are there and may be announced.
	begun atomic.Bool

	// applying is held while a configuration is passed on, from reading which one runs
	// to the last that is told: otherwise an older one could be told after a newer.
	applying sync.Mutex

	mu sync.Mutex
	// All below is guarded by mu. loaded is what runs, refused why the file on disk
	// is not that, ingressErr why the ingress cluster could not be opened.
	loaded     *config.Loaded
	loadedAt   time.Time
	refused    error
	ingressErr error
	// joined is when each member was configured, synced who has been announced, stale
	// who was so at the last look.
	joined map[string]time.Time
	synced map[string]bool
	stale  map[string]bool
	// identities are those of members, as known from before the start.
	identities map[string]string
	// kept is what was last said about clusters that are not configured.
	kept map[string]int
	// reopen is signalled when the ingress cluster is to be reached differently; what
	// counts then is the configuration.
	reopen chan struct{}
}

func newReplicator(path string, loaded *config.Loaded, logger *slog.Logger) *replicator {
	now := time.Now()
	r := &replicator{
		path: path, started: now, logger: logger, sink: &sink{},
		loaded: loaded, loadedAt: now, joined: map[string]time.Time{}, synced: map[string]bool{}, stale: map[string]bool{}, reopen: make(chan struct{}, 1),
	}
	v := readBuildVersion()
	r.metrics = metrics.New(metrics.Options{Logger: logger, Version: v.Version, Revision: v.Commit, Status: r.status, NotReady: r.notReady})
	r.keeper.set(&loaded.Config)
	options := setOptions(r.sink, r.keeper.keeps, r.metrics, logger, r.memberChanged)
	options.Standing, options.Pinned = r.standing, r.pinned
	r.set = clusters.NewSet(options)
	for _, c := range loaded.Config.Clusters {
		r.joined[c.Name] = now
		r.metrics.AddCluster(c.Name)
	}
	return r
}

// run replicates until ctx is done. It returns early only when the ingress
// cluster cannot be used with this configuration.
func (r *replicator) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	side, err := r.firstSide(ctx)
	if side == nil {
		return err
	}
	r.start(ctx, side)
	var members sync.WaitGroup
	members.Go(func() { r.set.Run(ctx) })
	for next := r.nextSide(ctx, side); next != nil; next = r.nextSide(ctx, side) {
		r.takeOver(side, next)
		side = next
	}
	side.end()
	members.Wait()
	return nil
}

// start lets the first side write and makes the members, in an order that makes
// neither guess: what stands was listed before any member is asked, by which identity
// each was known is read before it is made, and nothing is written, no Lease either,
// before all that are configured are there.
func (r *replicator) start(ctx context.Context, side *ingressSide) {
	r.logger.Info("ingress cluster listed", "version", side.version.String(), "replicas", side.reconciler.Owned())
	r.readIdentities(ctx, side)
	r.applying.Lock()
	r.use(side)
	r.applyMembers()
	r.begun.Store(true)
	r.applying.Unlock()
	close(side.turn)
	r.lookOnceSettled(side.reconciler)
	r.reportKept(side.reconciler)
}

// running is the configuration that runs.
func (r *replicator) running() *config.Loaded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// applyMembers makes the set equal to the configuration. The caller holds applying.
func (r *replicator) applyMembers() {
	changes := r.set.Apply(r.running())
	r.forgetMembers(changes.Removed)
	for _, name := range changes.Removed {
		r.logger.Info("member removed from the configuration", "cluster", name)
	}
}

// reportKept says what stands of clusters that are not configured and what becomes of
// it, if that is news.
func (r *replicator) reportKept(to *reconcile.Reconciler) {
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
func (r *replicator) apply(update config.Update) {
	if update.Err != nil {
		r.refuse(update.Err, update.Reloaded)
	} else if update.Reloaded {
		r.metrics.ConfigReload(nil)
		r.logger.Info("configuration reloaded", "file", r.path)
	}
	r.applying.Lock()
	defer r.applying.Unlock()
	r.adopt(update)
	r.reportRefused(update)
	diff := update.Diff
	if diff.Ingress {
		select {
		case r.reopen <- struct{}{}:
		default:
		}
	}
	if !r.begun.Load() {
		return // nothing runs yet that could be changed; it will start with what was adopted
	}
	// The settings come first: what the edit makes dirty is then decided by them.
	to := r.sink.to.Load()
	to.SetSettings(settings(&update.Loaded.Config))
	r.recallIdentities(diff.Added)
	r.applyMembers()
	if diff.Annotations {
		r.set.Relist("")
	}
	if diff.Replicas || diff.Policy || len(diff.Removed) > 0 {
		r.reportKept(to) // which counts what stands before it goes
		to.Resync("", "config")
	}
}

// adopt makes a configuration the running one: what was read, with kubeconfigs that
// are new, or the former one where the file was refused.
func (r *replicator) adopt(update config.Update) {
	now, loaded := time.Now(), update.Loaded
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded != loaded {
		r.loaded = loaded
		r.keeper.set(&loaded.Config)
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
			delete(r.identities, name)
			r.metrics.RemoveCluster(name)
		}
	}
}

func (r *replicator) refuse(err error, news bool) {
	if !news {
		return
	}
	r.metrics.ConfigReload(err)
	r.logger.Error("configuration refused, the running one stays", "file", r.path, "error", err)
}

// reportRefused says which kubeconfigs are refused, for a reason that is new.
func (r *replicator) reportRefused(update config.Update) {
	for _, name := range update.Diff.Refused {
		r.logger.Error("kubeconfig refused, the former connection stays", "cluster", name, "error", update.Loaded.Members[name].Err)
	}
	if update.Diff.IngressRefused {
		r.logger.Error("kubeconfig of the ingress cluster refused, the former connection stays", "error", update.Loaded.Ingress.Err)
	}
}

// readyAfter is how long an unreachable member may hold back readiness.
const readyAfter = 15 * time.Second

// notReady lists what readiness waits for; nothing means ready.
func (r *replicator) notReady() []string {
	if r.ready.Load() {
		return nil
	}
	var reasons []string
	if side := r.ingress.Load(); side == nil || !side.reconciler.Synced() {
		reasons = append(reasons, "the ingress cluster has not been listed yet")
	}
	r.mu.Lock()
	joined := make(map[string]time.Time, len(r.joined))
	for name, at := range r.joined {
		joined[name] = at
	}
	r.mu.Unlock()
	states := map[string]clusters.Status{}
	for _, s := range r.set.Status() {
		states[s.Name] = s
	}
	for _, name := range sortedKeys(joined) {
		s := states[name]
		if !s.Synced && (s.State == clusters.Syncing || time.Since(joined[name]) < readyAfter) {
			reasons = append(reasons, fmt.Sprintf("cluster %s has not been listed yet", name))
		}
	}
	if len(reasons) == 0 {
		r.ready.Store(true)
		r.logger.Info("ready")
	}
	return reasons
}

var _ reconcile.Source = source{}
