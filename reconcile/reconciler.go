// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// Options set up a Reconciler. Session and Source must be set.
type Options struct {
	// Session reads and watches the ingress cluster; it is held until Follow, Observe or
	// Run has ended. Writer writes to it and reads single objects: two transports keep a
	// burst of watch events from delaying a write. nil: the session's. No client-side
	// limit, and warnings silenced: every call about Endpoints answers with one.
	Session *kube.Session
	Writer  kubernetes.Interface
	// Only are the namespaces to which reading is confined; nil: it is not. What is not
	// read is not written.
	Only   []string
	Source Source
	// Outside is told what replicas are to be; nil: nobody is.
	Outside Outside
	// Events posts a Kubernetes Event where a conflict appears or is gone; nil: none
	// are posted.
	Events kubernetes.Interface
	// NoSlices is for an ingress cluster without discovery.k8s.io/v1: EndpointSlices
	// are not watched, and Settings.WriteSlices must be false.
	NoSlices bool
	// Queue sets up the lanes; its Workers is the number of concurrent replicas.
	Queue lanes.Options
	// Recorder is told about changes; nil: nobody is.
	Recorder Recorder
	// Heartbeats, unless nil, are told that workers, requests and probes get on.
	Heartbeats *metrics.Heartbeats
	// Logger; nil: nothing is logged.
	Logger *slog.Logger
	// RequestTimeout limits one request. 0 means 10 s.
	RequestTimeout time.Duration
	// Grace is how long writes in flight may take when Run is told to stop.
	// 0 means 8 s.
	Grace time.Duration
	// Begin, unless nil, is closed when replicas may be looked at. Until then what is to
	// be looked at is collected: for one whose members are not there yet.
	Begin <-chan struct{}
	// Leading is called each time before this process begins to write, when what stands is
	// known; nil: nobody is told.
	Leading func()
	// RefusalPause is how long something that the ingress cluster refused is left out
	// before it is tried again; the pause doubles with each refusal, up to five
	// minutes. 0 means 5 s.
	RefusalPause time.Duration
}

// Settings are what may change while the Reconciler runs.
type Settings struct {
	plan.Settings
	// DeleteRemoved takes away the endpoints of clusters that are no longer
	// configured. By default they stay as they are.
	DeleteRemoved bool
	// MayWrite bounds the namespaces that are written to; nil: none is out of bounds.
	MayWrite func(namespace string) bool
}

// Reconciler makes the ingress cluster equal to what the members demand. All
// methods are safe for concurrent use; Run, Follow or Observe may be called once.
type Reconciler struct {
	opts     Options
	queue    *lanes.Queue
	workers  sync.WaitGroup
	cache    *cache.Cache
	observer *observer
	writer   *write.Writer
	breaker  *breaker
	throttle *write.RepairThrottle
	rivals   rivals
	refusals *write.Refusals
	pauses   write.Pauses
	events   *events
	recorder Recorder
	logger   *slog.Logger
	// contact is when the ingress cluster last answered on the connection that writes
	// go through, in Unix nanoseconds.
	contact atomic.Int64
	// denial is the last write that was denied.
	denial atomic.Pointer[denial]
	// leadership is the right to write.
	leadership leadership
}

// New returns a Reconciler that does nothing until Run.
func New(opts Options) *Reconciler {
	if opts.Writer == nil {
		opts.Writer = opts.Session.Clientset()
	}
	if opts.Recorder == nil {
		opts.Recorder = unrecorded{}
	}
	if opts.Outside == nil {
		opts.Outside = nobody{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.RequestTimeout = cmp.Or(opts.RequestTimeout, 10*time.Second)
	opts.Grace = cmp.Or(opts.Grace, 8*time.Second)
	opts.RefusalPause = cmp.Or(opts.RefusalPause, write.FirstPause)
	r := &Reconciler{
		opts: opts, queue: lanes.New(opts.Queue), throttle: write.NewRepairThrottle(), recorder: opts.Recorder, logger: opts.Logger,
	}
	r.breaker = newBreaker(r.askIngress, r.breakerTurned, r.retryNow, r.queue.RetryAll, opts.Logger)
	r.queue.SetAway(true) // until Lead
	r.refusals = write.NewRefusals(opts.RefusalPause, r.lookAgain)
	r.cache = cache.New(r.changed, opts.Recorder.Echo)
	decoder := cache.Decoder{Instance: opts.Source.Settings().Instance, Process: strings.ToLower(crand.Text()[:8])}
	r.observer = newObserver(opts.Session, r.cache, decoder, !opts.NoSlices, opts.Only, r.readable, opts.Logger)
	if opts.Events != nil {
		r.events = newEvents(opts.Events, r.cache.ServiceUID, opts.Logger)
	}
	r.writer = write.New(opts.Writer, r.queue, r.cache, decoder, opts.Recorder, opts.RequestTimeout, opts.Heartbeats)
	return r
}

// Run is Follow and, for as long, Lead: it reconciles until ctx is done, lets the writes
// in flight end (for Options.Grace at most), and returns when all its goroutines have.
func (r *Reconciler) Run(ctx context.Context) {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	group.Go(func() { r.Follow(following) })
	r.Lead(ctx)
	stop()
	group.Wait()
}

// Follow watches the ingress cluster and looks at replicas until ctx is done. What is to
// be written is left, and looked at again, while Lead does not run. Nothing is looked at
// before the ingress cluster was listed, nor before Options.Begin.
func (r *Reconciler) Follow(ctx context.Context) {
	var watches sync.WaitGroup
	watches.Go(func() { r.Observe(ctx) })
	watches.Go(func() { r.rivals.tick(ctx) })
	if r.WaitForSync(ctx) == nil && (r.opts.Begin == nil || waitFor(ctx, r.opts.Begin) == nil) {
		stop := context.AfterFunc(ctx, r.queue.ShutDown)
		for range r.queue.Workers() {
			r.workers.Go(func() { r.work(ctx, context.WithoutCancel(ctx)) })
		}
		r.workers.Wait()
		stop()
	}
	<-ctx.Done()
	r.queue.ShutDown()
	r.refusals.Stop()
	watches.Wait()
}

// Observe only watches the ingress cluster and asks whether it answers, until ctx is done: enough for
// PlanAll. Run includes it.
func (r *Reconciler) Observe(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		r.breaker.run(ctx, r.opts.Heartbeats.Start("the probes of the ingress cluster", kube.ProbeBound))
	})
	r.observer.run(ctx, r.opts.Heartbeats)
	group.Wait()
}

// WaitForSync waits until what stands in the ingress cluster was listed. Start
// the members only then: their contributions are compared with what stands. The
// error is ctx's.
func (r *Reconciler) WaitForSync(ctx context.Context) error { return waitFor(ctx, r.observer.synced) }

func waitFor(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced reports whether WaitForSync would return at once.
func (r *Reconciler) Synced() bool { return r.observer.isSynced() }

// Dirty asks for a look at a replica.
func (r *Reconciler) Dirty(replica syncer.Key, lane lanes.Lane, cause record.Cause) {
	r.queue.Add(replica, lane, cause)
}

// Resync asks for a look at every replica that a member wants or that stands,
// in the bulk lane. Call it when a member left the configuration, or is stale, and
// when the settings have changed. cluster is the member meant, "" for none; event is the cause's:
// "resync", "config", "stale".
func (r *Reconciler) Resync(cluster, event string) {
	r.enqueue("", cluster, event)
}

// Seen says that a member has just been seen whole for the first time, so that what
// stands of it can go where it is not wanted any more. What the member wants comes
// with its own events. The last member to be seen makes all replicas be looked at:
// only then absence means something for what stands of nobody.
func (r *Reconciler) Seen(cluster string) {
	if allSynced(r.opts.Source.Members()) {
		r.Resync(cluster, eventResync)
		return
	}
	now := time.Now()
	for _, key := range r.cache.Replicas(nil) {
		if slices.Contains(r.clusters(key), cluster) {
			r.look(key, cluster, eventResync, now)
		}
	}
}

// enqueue adds every replica of a namespace, "" for all of them.
func (r *Reconciler) enqueue(namespace, cluster, event string) {
	now := time.Now()
	in := func(key syncer.Key) bool { return namespace == "" || key.Namespace == namespace }
	keys := slices.AppendSeq(slices.Concat(r.cache.Replicas(in), r.opts.Outside.Keys()), r.opts.Source.Replicas())
	seen := make(map[syncer.Key]bool, len(keys))
	for _, key := range keys {
		if in(key) && !seen[key] {
			seen[key] = true
			r.look(key, cluster, event, now)
		}
	}
}

// look asks for a look at a replica that nobody has changed.
func (r *Reconciler) look(key syncer.Key, cluster, event string, now time.Time) {
	r.queue.Add(key, lanes.Bulk, record.Cause{Cluster: cluster, Kind: "Service", Namespace: key.Namespace, Name: key.Name, Event: event, Arrival: now})
}

// readable receives that a namespace may be read by now.
func (r *Reconciler) readable(namespace string) { r.enqueue(namespace, "", cache.EventRepair) }

// changed receives what others did in the ingress cluster.
func (r *Reconciler) changed(changes []cache.Change) {
	for i := range changes {
		if c := &changes[i]; c.Namespace != "" {
			r.enqueue(c.Namespace, "", cache.EventRepair)
		} else {
			if c.Rival || c.Deleted {
				r.rival(c)
			}
			r.queue.Add(c.Replica, c.Lane, c.Cause)
		}
	}
}

// Queue is the queue of dirty replicas, for its depth and ages.
func (r *Reconciler) Queue() *lanes.Queue { return r.queue }

// Owned counts the replicas of ours that stand.
func (r *Reconciler) Owned() int { return r.cache.Owned() }

// breakerTurned passes on that the breaker opens or closes.
func (r *Reconciler) breakerTurned(open bool) {
	r.leadership.setBroken(open, r.queue.SetAway)
	if open {
		r.logger.Warn("the ingress cluster takes no writes; changes wait in their lanes")
		return
	}
	r.logger.Info("the ingress cluster takes writes again")
}

// eventResync marks looks that nothing has changed for.
const eventResync = "resync"
