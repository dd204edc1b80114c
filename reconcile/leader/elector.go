// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// ErrHandover, as the cause of a context's end, makes Run leave the Lease as it is: it
// is the same process that goes on, by another connection.
var ErrHandover = errors.New("the same process goes on by another connection")

const (
	// releaseTimeout bounds the release of the Lease; a failed one only makes the
	// successor wait until it runs out.
	releaseTimeout = time.Second
	// fencedFirst and fencedMax bound the time between two terms of which the API server
	// ended the first. Its view of the Lease is some milliseconds old, so that it may
	// refuse whom it admits at once.
	fencedFirst = 50 * time.Millisecond
	fencedMax   = 5 * time.Second
)

// Options set up an Elector. All fields must be set, but for Disabled and Changed.
type Options struct {
	// Client reaches the ingress cluster by a connection of its own: neither limits nor
	// the Permit may stand before a renewal.
	Client kubernetes.Interface
	// Namespace and Name are those of the Lease; Labels are put on it.
	Namespace, Name string
	Labels          map[string]string
	// Identity is the holder's name. It outlasts a restart of the process in its place,
	// which then takes its own Lease at once; no two processes that run may have it.
	Identity string
	Times    Times
	// Disabled lets this process write alone, whatever others do.
	Disabled bool
	Permit   *Permit
	Logger   *slog.Logger
	// Changed is called when State has changed. It must not block.
	Changed func()
}

// Times are the durations of an election. LeaseDuration is a whole number of seconds,
// longer than RenewDeadline, which is more than 1.2 times RetryPeriod.
type Times struct {
	// LeaseDuration is after how long others take a Lease that is not renewed.
	LeaseDuration time.Duration
	// RenewDeadline is for how long the holder writes after the last renewal that was
	// acknowledged, counted from when it was sent. What remains to LeaseDuration is for
	// clocks that run at different speeds.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals.
	RetryPeriod time.Duration
}

// State is what is known of an election.
type State struct {
	// Leading is true while this process may write; Alone when nobody asks a Lease for it,
	// because of Reason.
	Leading, Alone bool
	Reason         string
	// Former is until when another process may have led before this one does, as far as it
	// was seen; zero: none has since this one did last.
	Former time.Time
	// Holder is who holds the Lease, as far as was seen; "" nobody.
	Holder string
	// Lease is its namespace and name, Identity the name of this process.
	Lease, Identity string
	// Since is when Leading last changed.
	Since time.Time
	// Err is why the Lease cannot be read or written at present.
	Err error
}

// Elector takes part in an election. Run may be called once; State is safe for
// concurrent use.
type Elector struct {
	opts Options
	lock *lock

	mu    sync.Mutex
	state State
}

// New returns an Elector that does nothing until Run.
func New(o Options) *Elector {
	e := &Elector{opts: o}
	e.state = State{Lease: o.Namespace + "/" + o.Name, Identity: o.Identity, Since: time.Now()}
	e.lock = &lock{
		leases: o.Client.CoordinationV1().Leases(o.Namespace), meta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: o.Labels},
		identity: o.Identity, times: o.Times, permit: o.Permit, seen: e.saw, lost: make(chan string, 1),
	}
	return e
}

// State returns what is known now.
func (e *Elector) State() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.state
	s.Leading = s.Leading && e.opts.Permit.MayWrite()
	return s
}

// Run takes part until ctx is done. Whenever this process is elected it calls lead, with
// a context that is done when leadership, or ctx, ends. The Permit is held from before
// lead is called. When ctx is done, lead is waited for before the Lease is released, and
// the Lease is renewed meanwhile; when leadership is lost, the Permit is revoked first.
func (e *Elector) Run(ctx context.Context, lead func(context.Context)) {
	defer e.opts.Permit.Revoke()
	pause := fencedFirst
	for ctx.Err() == nil {
		reason := "leader election is turned off (leaderElection.enabled: false)"
		if !e.opts.Disabled {
			if reason = e.mayNot(ctx); reason != "" && !e.mayBeAlone(ctx, reason) {
				continue
			}
		}
		if reason != "" {
			e.leadAlone(ctx, reason, lead)
			continue
		}
		began := time.Now()
		if fenced := e.term(ctx, lead); !fenced || time.Since(began) > fencedMax {
			pause = fencedFirst
			continue
		}
		wait(ctx, pause)
		pause = min(2*pause, fencedMax)
	}
}

// leadAlone leads until ctx is done, or Leases may be written.
func (e *Elector) leadAlone(ctx context.Context, reason string, lead func(context.Context)) {
	if e.opts.Disabled {
		e.opts.Logger.Info("this process writes alone: run no second one", "reason", reason)
	} else {
		e.opts.Logger.Error("NO LEADER ELECTION: this process writes alone, and a second one of this installation would fight it",
			"lease", e.lock.Describe(), "reason", reason)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !e.opts.Disabled {
		go func() {
			defer stop()
			e.awaitRights(ctx)
		}()
	}
	e.opts.Permit.holdAlone()
	e.set(func(s *State) {
		s.Leading, s.Alone, s.Reason, s.Err, s.Since = true, true, reason, nil, time.Now()
		s.Former = s.Since
	})
	lead(ctx)
	<-ctx.Done()
	e.opts.Permit.Revoke()
	e.set(func(s *State) { s.Leading, s.Alone, s.Reason, s.Since = false, false, "", time.Now() })
}

// term is one candidacy, and the leadership that comes of it. fenced is true if the API
// server ended it.
func (e *Elector) term(ctx context.Context, lead func(context.Context)) (fenced bool) {
	electing, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	started, ended := make(chan struct{}), make(chan struct{})
	e.lock.begin()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.lock, LeaseDuration: e.opts.Times.LeaseDuration, RenewDeadline: e.opts.Times.RenewDeadline, RetryPeriod: e.opts.Times.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		stop()
		panic(fmt.Sprintf("leader election: %v", err)) // Times are validated with the configuration
	}
	go func() { defer close(ended); elector.Run(electing) }()
	quit := func() { stop(); <-ended }

	select {
	case <-started:
	case <-ctx.Done():
		quit()
		e.leave(ctx) // it may have been elected in this moment
		return false
	}
	fenced = e.reign(ctx, ended, lead)
	quit()
	e.leave(ctx)
	return fenced
}

// reign leads until ctx is done or leadership is lost.
func (e *Elector) reign(ctx context.Context, ended <-chan struct{}, lead func(context.Context)) (fenced bool) {
	e.opts.Logger.Info("this process leads", "lease", e.lock.Describe(), "identity", e.opts.Identity)
	former := e.lock.former
	e.set(func(s *State) { s.Leading, s.Former, s.Since = true, former, time.Now() })
	leading, end := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); lead(leading) }()
	var lost string
	select {
	case <-ctx.Done():
	case <-ended:
		lost = "the Lease could not be renewed in time"
	case lost = <-e.lock.lost:
	case lost = <-e.opts.Permit.refusals():
		fenced = true
		lost = "the API server refuses writes of whom it does not see as the holder: " + lost
	}
	if lost != "" {
		e.opts.Permit.Revoke()
		e.opts.Logger.Warn("this process leads no longer", "lease", e.lock.Describe(), "reason", lost)
	}
	end()
	<-done
	e.set(func(s *State) { s.Leading, s.Since = false, time.Now() })
	return fenced
}

// leave revokes the Permit. If it was still held at an end of ctx that is meant to
// last, the Lease is released before, so that another process need not wait.
func (e *Elector) leave(ctx context.Context) {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrHandover) && e.opts.Permit.MayWrite() {
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(releaseTimeout, e.opts.Permit.left()))
		defer cancel()
		e.opts.Permit.Revoke() // nobody writes any more; and nobody shall
		if err := e.lock.release(release); err != nil {
			e.opts.Logger.Warn("the Lease is not released: a successor waits until it has run out", "lease", e.lock.Describe(), "error", err)
			return
		}
		e.opts.Logger.Info("the Lease is released", "lease", e.lock.Describe())
	}
	e.opts.Permit.Revoke()
}

// saw notes who holds the Lease, or why that is not known.
func (e *Elector) saw(holder string, err error) {
	e.mu.Lock()
	was := e.state
	e.state.Err = err
	if err == nil {
		e.state.Holder = holder
	}
	now := e.state
	e.mu.Unlock()
	switch {
	case err != nil && was.Err == nil:
		e.opts.Logger.Warn("the leader's Lease is not reached, trying on", "lease", was.Lease, "error", err)
	case err == nil && was.Holder != holder && holder != "" && holder != was.Identity:
		e.opts.Logger.Info("another process leads, this one stands by", "lease", was.Lease, "leader", holder)
	}
	if was.Holder != now.Holder || (was.Err == nil) != (now.Err == nil) {
		e.changed()
	}
}

func (e *Elector) set(change func(*State)) {
	e.mu.Lock()
	change(&e.state)
	e.mu.Unlock()
	e.changed()
}

func (e *Elector) changed() {
	if e.opts.Changed != nil {
		e.opts.Changed()
	}
}

// wait waits, or returns when ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
