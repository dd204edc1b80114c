// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// retryPeriod bounds the time between two renewals. A candidate looks after up to 2.2
// times as long, so that it notices a release within 2 s.
const retryPeriod = 750 * time.Millisecond

// Options set up an Elector. All fields must be set, but for Labels and Disabled.
type Options struct {
	// Client is how the ingress cluster is reached now, by connections of its own: the Permit
	// must not stand before a renewal.
	Client func(ctx context.Context) (kubernetes.Interface, error)
	// Namespace and Name are those of the Lease; it is made with Labels.
	Namespace, Name string
	Labels          map[string]string
	// Identity is the holder's name. A process that starts again in its place takes its own
	// Lease at once, so no two that run may have the same.
	Identity string
	// LeaseDuration is after how long others take a Lease that is not renewed: whole seconds.
	LeaseDuration time.Duration
	// Disabled lets this process write without an election.
	Disabled bool
	Permit   *Permit
	Logger   *slog.Logger
}

// State is what is known of an election.
type State struct {
	// Leading is true while this process may write, Since when it was last elected or deposed.
	Leading bool
	Since   time.Time
	// Holder is who holds the Lease as far as was seen; "": nobody, or there is no election.
	// Lease is its namespace and name, Identity the name of this process.
	Holder, Lease, Identity string
	// Err is why the Lease cannot be read or written at present.
	Err error
}

// Elector takes part in an election. Run may be called once; State is safe for concurrent use.
type Elector struct {
	opts  Options
	mu    sync.Mutex
	state State // guarded by mu; but for Leading, which the Permit tells
}

// New returns an Elector that does nothing until Run.
func New(o Options) *Elector {
	return &Elector{opts: o, state: State{Lease: o.Namespace + "/" + o.Name, Identity: o.Identity, Since: time.Now()}}
}

// State returns what is known now.
func (e *Elector) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state
	s.Leading, _ = e.opts.Permit.state()
	return s
}

// Run takes part until ctx is done. Whenever this process is elected it calls lead, with a
// context that is done when leadership, or ctx, ends; the Permit is held from before. At the
// end of ctx lead is waited for, while the Lease is renewed, and only then is it released.
func (e *Elector) Run(ctx context.Context, lead func(context.Context)) {
	defer e.opts.Permit.revoke()
	if e.opts.Disabled {
		e.opts.Permit.extend(time.Now().AddDate(100, 0, 0))
		lead(ctx)
		return
	}
	l := newLock(&e.opts, e.saw)
	for ctx.Err() == nil {
		e.term(ctx, l, lead)
	}
}

// term is one candidacy, and the leadership that comes of it. At its end nobody writes.
func (e *Elector) term(ctx context.Context, l *lock, lead func(context.Context)) {
	electing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		if !l.leading.Load() { // else lead ends, and then the election
			stop()
		}
	})()
	ended := make(chan struct{})
	l.leading.Store(false)
	l.end = func() { e.opts.Permit.revoke(); stop() }
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: e.opts.LeaseDuration, RenewDeadline: l.term.RenewDeadline(), RetryPeriod: min(retryPeriod, e.opts.LeaseDuration/20), ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(elected context.Context) {
				defer close(ended)
				leading, end := context.WithCancel(ctx)
				defer context.AfterFunc(elected, end)()
				e.opts.Logger.Info("this process leads", "lease", l.Describe(), "identity", e.opts.Identity)
				e.since(time.Now())
				lead(leading)
				e.opts.Logger.Info("this process leads no longer", "lease", l.Describe())
				e.since(time.Now())
				l.end()
			},
			OnStoppedLeading: e.opts.Permit.revoke,
		},
	})
	if err != nil {
		panic("leader election: " + err.Error()) // of constants, and a duration that the configuration validates
	}
	if elector.Run(electing); l.leading.Load() {
		<-ended
	}
}

// saw notes who holds the Lease, or why that is not known.
func (e *Elector) saw(holder string, err error) {
	was := e.State()
	switch {
	case err != nil && was.Err == nil:
		e.opts.Logger.Warn("the leader's Lease is not reached, trying on", "lease", was.Lease, "error", err)
	case err == nil && was.Holder != holder && holder != "" && holder != was.Identity:
		e.opts.Logger.Info("another process leads, this one is on standby", "lease", was.Lease, "leader", holder)
	case err == nil && was.Err == nil && was.Holder == holder:
		return
	}
	if err != nil {
		holder = was.Holder
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Holder, e.state.Err = holder, err
}

func (e *Elector) since(at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.Since = at
}
