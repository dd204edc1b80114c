// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/sinks"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// grace bounds how long requests under way may take when Lead ends.
const grace = 4 * time.Second

// Source is what is known of the members. All methods are safe for concurrent use, answer
// from memory, and call nothing of this package.
type Source interface {
	// Shares returns what each configured member gives to a replica.
	Shares(replica syncer.Key) []plan.Share
	// Settings are those of the configuration that runs.
	Settings() *Settings
	// Replicas returns every key for which a member has a Service; a key may come twice.
	Replicas() iter.Seq[syncer.Key]
	// AllListed reports whether every configured member has been listed completely.
	AllListed() bool
}

// Settings are what the configuration says about the ingress cluster.
type Settings struct {
	// Settings are about replicas. DropOrphans is as configured: it holds once all members
	// have been listed.
	plan.Settings
	// MayWrite says which namespaces of the ingress cluster may be written to; what stands
	// in others is left as it is.
	MayWrite func(namespace string) bool
}

// Metrics is told what the reconciler does; *metrics.Metrics is one. All methods must be safe
// for concurrent use and must not wait.
type Metrics interface {
	Change(record.Change) (seq uint64)
	Report(namespace, service string, t metrics.Trouble)
	Write(kind, verb string, result metrics.WriteResult)
	Workqueue() workqueue.MetricsProvider
}

// Permit is the right to write; *leader.Permit is one.
type Permit interface {
	Hold(parent context.Context) (bounded context.Context, release func(), ok bool)
}

// Options set up a Reconciler. All fields must be set, but for Events.
type Options struct {
	// Access is how the ingress cluster is followed, Write how it is written to.
	Access, Write *kube.Access
	Source        Source
	// Permit is held for each write.
	Permit Permit
	// Sinks are told what replicas are to be.
	Sinks   *sinks.Set
	Metrics Metrics
	// Instance is the name of the installation.
	Instance string
	// Events posts conflicts as Kubernetes Events, for people; nil: nobody does.
	Events *kube.Events
	Logger *slog.Logger
}

// Reconciler compares replicas and writes what differs. All methods are safe for concurrent
// use; Follow may be called once, Lead again and again while Follow runs.
type Reconciler struct {
	opts     Options
	cache    *cache.Cache
	queue    *lanes.Queue
	dispatch *lanes.Dispatch
	writer   writer
	repairs  repairs
	records  records
	troubles troubles
	leading  atomic.Bool
}

// writer sends actions; *write.Writer is one.
type writer interface {
	Send(ctx context.Context, a plan.Action) (*cache.Object, error)
}

// New returns a Reconciler that does nothing yet.
func New(o Options) *Reconciler {
	r := &Reconciler{opts: o, queue: lanes.NewQueue("replicas", o.Metrics.Workqueue())}
	r.dispatch = lanes.NewDispatch(r.queue)
	r.cache = cache.New(cache.Options{Instance: o.Instance, News: r.edited})
	r.writer = write.New(func(ctx context.Context) (write.Session, error) { return o.Write.Get(ctx) }, o.Instance, o.Metrics)
	r.repairs.again = func(key syncer.Key) { r.queue.Add(key, plan.Addition) }
	r.records.open = map[syncer.Key][]*change{}
	r.troubles.failed = map[syncer.Key]map[plan.Object]error{}
	r.troubles.events, r.troubles.told = o.Events, map[syncer.Key]string{}
	return r
}

// Follow follows the ingress cluster and, once it has been listed, compares replicas until ctx
// is done. What is to be written waits for Lead.
func (r *Reconciler) Follow(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { r.cache.Follow(ctx, r.opts.Access, r.unreadable) })
	if r.WaitForSync(ctx) != nil {
		return
	}
	for range min(4, max(2, runtime.GOMAXPROCS(0))) {
		group.Go(r.compareAll)
	}
	<-ctx.Done()
	r.queue.ShutDown()
}

// Lead writes until ctx is done, lets the requests that are under way end, and returns when
// nothing is written any more. It waits for the ingress cluster to have been listed.
func (r *Reconciler) Lead(ctx context.Context) {
	if r.WaitForSync(ctx) != nil {
		return
	}
	r.leading.Store(true)
	defer r.leading.Store(false)
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, stop) })()
	var group sync.WaitGroup
	for range lanes.Places {
		group.Go(func() { r.request(ctx, writing) })
	}
	group.Go(func() { r.opts.Sinks.Run(ctx, r.complete) })
	if r.opts.Events != nil {
		group.Go(func() { r.opts.Events.Run(ctx) })
	}
	r.CompareAll(record.EventStarted)
	group.Wait()
}

// WaitForSync waits until the ingress cluster has been listed. The error is ctx's.
func (r *Reconciler) WaitForSync(ctx context.Context) error {
	select {
	case <-r.cache.Synced():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced reports whether WaitForSync would return at once.
func (r *Reconciler) Synced() bool {
	select {
	case <-r.cache.Synced():
		return true
	default:
		return false
	}
}

// Dirty asks for a comparison of a replica. hint is what the news may come to.
func (r *Reconciler) Dirty(replica syncer.Key, hint plan.Lane, cause record.Cause) {
	r.queue.Add(replica, hint, cause)
}

// CompareAll asks for a comparison of every replica that a member has or that stands, as bulk
// work. Call it when settings, sinks or the members that are configured have changed, and
// when the last member was listed. event is one of record's.
func (r *Reconciler) CompareAll(event string) {
	now := time.Now()
	for key := range r.keys() {
		r.queue.Add(key, plan.Bulk, record.Cause{Kind: "Service", Namespace: key.Namespace, Name: key.Name, Event: event, Arrival: now})
	}
}

// compareNamespace asks for a comparison of every replica in a namespace.
func (r *Reconciler) compareNamespace(namespace string, hint plan.Lane, causes ...record.Cause) {
	for key := range r.keys() {
		if key.Namespace == namespace {
			r.queue.Add(key, hint, causes...)
		}
	}
}

// keys are the replicas that a member has or that stand.
func (r *Reconciler) keys() map[syncer.Key]struct{} {
	keys := map[syncer.Key]struct{}{}
	for _, key := range r.cache.Keys() {
		keys[key] = struct{}{}
	}
	for key := range r.opts.Source.Replicas() {
		keys[key] = struct{}{}
	}
	return keys
}

// Standing returns what stands of a member at this moment, once the ingress cluster has been
// listed. The error is ctx's.
func (r *Reconciler) Standing(ctx context.Context, member string) ([]cache.Standing, error) {
	if err := r.WaitForSync(ctx); err != nil {
		return nil, err
	}
	return r.cache.Standing(member), nil
}

// unreadable is told of what the ingress cluster sent and nobody could read.
func (r *Reconciler) unreadable(err error) {
	r.opts.Logger.Warn("the ingress cluster sent what cannot be read", "error", err)
}

// Trouble is why the ingress cluster is not followed; nil while it is.
func (r *Reconciler) Trouble() error { return r.cache.Trouble() }

// Current is what stands of a replica.
func (r *Reconciler) Current(replica syncer.Key) plan.Current { return r.cache.Current(replica) }

// Owned counts the replicas that stand.
func (r *Reconciler) Owned() int { return len(r.cache.Keys()) }

// Comparing counts the replicas that wait for a comparison.
func (r *Reconciler) Comparing() int { return r.queue.Len() }

// Lanes tells how many requests wait and are under way in each lane.
func (r *Reconciler) Lanes() [3]lanes.LaneState { return r.dispatch.States() }

// Oldest returns when the oldest change that is not yet written arrived, by member. asking is
// since when the oldest open question of a member has been asked.
func (r *Reconciler) Oldest(asking map[string]time.Time) map[string]time.Time {
	return r.queue.Oldest(asking)
}

// complete returns all replicas that there are; false while that is not known.
func (r *Reconciler) complete() (map[syncer.Key]struct{}, bool) {
	if !r.opts.Source.AllListed() {
		return nil, false
	}
	return r.keys(), true
}
