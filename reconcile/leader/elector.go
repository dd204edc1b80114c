// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"tributary.dev/tributary/metrics"
)

// retryPeriod bounds the time between two renewals. A candidate looks after up to 2.2
// times as long, so that it notices a release within 2 s.
const retryPeriod = 750 * time.Millisecond

// Options set up an Elector. All fields must be set, but for Labels and Disabled.
type Options struct {
	// Client is how the ingress cluster is reached now, by connections of its own: the Permit
	// must not block a renewal.
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

// Elector takes part in an election. Run may be called once; State is safe for concurrent use.
type Elector struct{ lock lock }

// New returns an Elector that does nothing until Run.
func New(o Options) *Elector {
	e := &Elector{lock{opts: o, term: Term{Identity: o.Identity, Lease: o.LeaseDuration}}}
	e.lock.LeaseMeta, e.lock.Labels = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, o.Labels
	e.lock.LockConfig.Identity = o.Identity
	e.lock.state = metrics.LeaderStatus{State: "standby", Since: time.Now().UTC(), Identity: o.Identity, Lease: e.lock.Describe()}
	return e
}

// State returns what is known now.
func (e *Elector) State() metrics.LeaderStatus {
	e.lock.mu.Lock()
	defer e.lock.mu.Unlock()
	s := e.lock.state
	switch held, _ := e.lock.opts.Permit.state(); {
	case held && e.lock.opts.Disabled:
		s.State = "alone"
	case held:
		s.State = "leading"
	case s.Holder == s.Identity: // its own Lease, which it may not renew: nobody leads
		s.Holder = ""
	}
	return s
}

// Run takes part until ctx is done. Whenever this process is elected it calls lead, with a
// context that is done when leadership, or ctx, ends; the Permit is held from before. At the
// end of ctx lead is waited for, while the Lease is renewed, and only then is it released.
func (e *Elector) Run(ctx context.Context, lead func(context.Context)) {
	defer e.lock.opts.Permit.revoke()
	if e.lock.opts.Disabled {
		e.lock.opts.Permit.extend(time.Now().AddDate(100, 0, 0))
		lead(ctx)
		return
	}
	for ctx.Err() == nil {
		e.candidacy(ctx, lead)
	}
}

// candidacy is one candidacy, and the leadership that follows. At its end nobody writes.
func (e *Elector) candidacy(ctx context.Context, lead func(context.Context)) {
	electing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	elected := make(chan context.Context, 1)
	e.lock.end = func() { e.lock.opts.Permit.revoke(); stop() }
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &e.lock, LeaseDuration: e.lock.opts.LeaseDuration, RenewDeadline: e.lock.term.RenewDeadline(),
		RetryPeriod: min(retryPeriod, e.lock.opts.LeaseDuration/20), ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(until context.Context) { elected <- until }, OnStoppedLeading: e.lock.opts.Permit.revoke},
	})
	if err != nil {
		panic("leader election: " + err.Error()) // of constants, and a duration that the configuration validates
	}
	var election sync.WaitGroup
	defer election.Wait()
	defer e.lock.end()
	election.Go(func() { elector.Run(electing) })
	select {
	case until := <-elected:
		leading, end := context.WithCancel(ctx)
		defer context.AfterFunc(until, end)()
		e.changed("this process leads")
		lead(leading)
		e.changed("this process leads no longer")
	case <-ctx.Done():
	}
}

// changed records and logs that this process begins or ceases to lead.
func (e *Elector) changed(what string) {
	e.lock.mu.Lock()
	defer e.lock.mu.Unlock()
	e.lock.state.Since = time.Now().UTC()
	e.lock.opts.Logger.Info(what, "lease", e.lock.state.Lease, "identity", e.lock.state.Identity)
}
