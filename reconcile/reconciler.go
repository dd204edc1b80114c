// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
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

const (
	// grace bounds how long requests under way may take when Lead ends.
	grace = 4 * time.Second
	// unheld is the longest time between two looks at a Permit that has lapsed: it is renewed
	// soon, or Lead ends.
	unheld = 100 * time.Millisecond
)

// Source is what is known of the members. All methods are safe for concurrent use, answer
// from memory, and call nothing of this package. Whoever reports news to this package holds no
// lock that they take.
type Source interface {
	// Shares returns what each configured member contributes to a replica.
	Shares(replica syncer.Key) []syncer.Share
	// Settings are those of the configuration that runs.
	Settings() *Settings
	// Replicas returns every key for which a member has a Service; a key may come twice.
	Replicas() []syncer.Key
	// AllListed reports whether every configured member has been listed completely.
	AllListed() bool
}

// Settings are what the configuration says about the ingress cluster.
type Settings struct {
	// Settings are about replicas. DropOrphans is as configured: it holds once all members
	// have been listed.
	plan.Settings
	// MayWrite says which namespaces of the ingress cluster may be written to; others are left
	// as they are.
	MayWrite func(namespace string) bool
}

// Metrics receives what the reconciler does; *metrics.Metrics is one. All methods must be safe
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

// Options set up a Reconciler. All fields must be set.
type Options struct {
	// Access is how the ingress cluster is followed, and Events are posted, Write how it is written to.
	Access, Write *kube.Access
	Source        Source
	// Permit is held for each write.
	Permit Permit
	// Sinks are told what replicas are to be.
	Sinks   *sinks.Set
	Metrics Metrics
	// Instance is the name of the installation.
	Instance string
	Logger   *slog.Logger
}

// Reconciler compares replicas and writes what differs. All methods are safe for concurrent
// use; Follow may be called once, Lead again and again while Follow runs.
type Reconciler struct {
	// Cache is the current state.
	Cache *cache.Cache

	opts      Options
	writer    *write.Writer
	announcer *announcer

	// mu guards core: it is held for one step. The locks of the cache, the queue and the Source
	// are taken within it, never around it: neither calls back with a lock held.
	mu   sync.Mutex
	core *Core
	// waiting is signalled when a replica waits for a comparison.
	waiting chan struct{}
	// writing ends with the time in which this process leads; nil: it does not. again looks once more
	// what may be sent.
	writing context.Context
	again   *time.Timer
	// sent are the requests under way, which end with writing.
	sent sync.WaitGroup
}

// New returns a Reconciler that does nothing yet.
func New(o Options) *Reconciler {
	client := func() kubernetes.Interface {
		if session := o.Access.Current(); session != nil {
			return session.Clientset()
		}
		return nil
	}
	r := &Reconciler{opts: o, announcer: newAnnouncer(client), waiting: make(chan struct{}, 1)}
	r.Cache = cache.New(o.Instance, func(key syncer.Key, object plan.Object, arrived time.Time) {
		r.Step(func(core *Core, now time.Time) { core.Edited(now, key, object, arrived) })
	})
	r.core = NewCore(o.Source, r.Cache, o.Metrics.Workqueue())
	r.writer = write.New(o.Write.Get, o.Instance, o.Metrics.Write)
	return r
}

// Step runs a step of the core, or reads it, under its lock; what may be sent after it is sent,
// and what waits is compared. take returns at once.
func (r *Reconciler) Step(take func(c *Core, now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	take(r.core, time.Now())
	if r.writing != nil {
		r.lockedSend(time.Now())
	}
	if r.core.Waiting() > 0 {
		select {
		case r.waiting <- struct{}{}:
		default:
		}
	}
}

// lockedSend begins the requests that may be sent, and says when to look again.
func (r *Reconciler) lockedSend(now time.Time) {
	ctx, wake := r.writing, now.Add(unheld)
	if _, release, held := r.opts.Permit.Hold(ctx); held {
		release()
		for {
			g, again := r.core.Request(now)
			wake = again
			if g == nil {
				break
			}
			r.sent.Go(func() { r.request(ctx, g) })
		}
	}
	r.again.Stop()
	if !wake.IsZero() {
		r.again.Reset(wake.Sub(now))
	}
}

// Follow follows the ingress cluster and, once it has been listed, compares replicas until ctx
// is done. What is to be written waits for Lead.
func (r *Reconciler) Follow(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	defer r.core.queue.ShutDown()
	group.Go(func() {
		r.Cache.Follow(ctx, r.opts.Access, func(err error) { r.opts.Logger.Warn("the ingress cluster sent what cannot be read", "error", err) })
	})
	if r.Cache.WaitForSync(ctx) != nil {
		return
	}
	for ctx.Err() == nil {
		if !r.compare() {
			select {
			case <-r.waiting:
			case <-ctx.Done():
			}
		}
	}
}

// compare plans anew for the next replica; false if none waits.
func (r *Reconciler) compare() bool {
	var c *Comparison
	r.Step(func(core *Core, _ time.Time) { c = core.Compare(time.Now) })
	if c == nil {
		return false
	}
	if c.Want != nil { // whatever the ingress cluster makes of it
		r.opts.Sinks.Tell(c.Replica, c.Want.Labels, c.Want.Backends)
	} else {
		r.opts.Sinks.Tell(c.Replica, nil, nil)
	}
	r.opts.Metrics.Report(c.Replica.Namespace, c.Replica.Name, c.trouble)
	if c.leads {
		r.announcer.announce(c)
	}
	for _, one := range c.ended {
		r.opts.Metrics.Change(one)
	}
	return true
}

// Lead writes until ctx is done, lets the requests that are under way end, and returns when
// nothing is written any more. It waits for the ingress cluster to have been listed.
func (r *Reconciler) Lead(ctx context.Context) {
	if r.Cache.WaitForSync(ctx) != nil {
		return
	}
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, stop) })()
	r.Step(func(core *Core, now time.Time) {
		r.writing, r.again = writing, time.AfterFunc(unheld, func() { r.Step(func(*Core, time.Time) {}) })
		core.Lead(now, true)
	})
	var group sync.WaitGroup
	group.Go(func() { r.opts.Sinks.Run(ctx, r.complete) })
	group.Go(func() { r.announcer.run(ctx) })
	<-ctx.Done()
	r.Step(func(core *Core, now time.Time) {
		r.writing = nil
		r.again.Stop()
		core.Lead(now, false)
	})
	r.sent.Wait()
	group.Wait()
}

// request sends what was granted.
func (r *Reconciler) request(ctx context.Context, g *lanes.Grant) {
	var object *cache.Object
	err, lapsed := context.Canceled, true // unless the Permit is held
	if bounded, release, ok := r.opts.Permit.Hold(ctx); ok {
		object, err = r.writer.Send(bounded, g.Action)
		release()
		if _, release, ok := r.opts.Permit.Hold(ctx); ok { // renewed: a request that it cut before has failed
			release()
			lapsed = ctx.Err() != nil
		}
	}
	var ended []record.Change
	r.Step(func(core *Core, now time.Time) { ended = core.Answered(now, g, object, err, lapsed) })
	for _, one := range ended {
		r.opts.Metrics.Change(one)
	}
}

// complete returns all replicas that there are; false while that is not known.
func (r *Reconciler) complete() ([]syncer.Key, bool) {
	if !r.opts.Source.AllListed() { // for as long as a member is away: it is asked for at each change
		return nil, false
	}
	return replicas(r.opts.Source, r.Cache), true
}
