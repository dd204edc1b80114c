// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/leader"
)

// The ingress cluster is reached by one session at a time. When its kubeconfig is
// edited, the session in use serves until another has proven itself by listing all that
// stands; one that is refused takes nothing from it. Two never write at once.

// The pauses between two attempts to open the ingress cluster, and between two looks
// at one that does not let itself be listed.
const (
	openRetry      = 250 * time.Millisecond
	openRetryLimit = 5 * time.Second
	listedLook     = 250 * time.Millisecond
)

// run replicates until ctx is done: it takes what happens into the state of this
// instance, and does what follows. It returns early only when the ingress cluster cannot
// be used with this configuration.
func (r *App) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var members sync.WaitGroup
	defer members.Wait()
	defer cancel()
	var now life
	var inUse *ingressSession
	tried := r.try(ctx, nil)
	defer func() {
		tried.giveUp()
		inUse.end(nil)
	}()
	for {
		e := r.facts(inUse, tried).event(now)
		if e == nothing {
			if err := tried.failed(); err != nil && inUse == nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-r.news:
			}
			continue
		}
		next, do := now.next(e)
		if e == reached {
			r.noteIngress(nil)
			r.ingress.Store(tried.session.Load()) // so that people see what it waits for
		}
		switch do {
		case try:
			if inUse == nil {
				r.ingress.Store(nil)
			}
			tried.giveUp()
			tried = r.try(ctx, inUse)
		case giveUp:
			tried.giveUp()
			tried = nil
			r.noteIngress(nil)
		case begin:
			inUse, tried = tried.proven(), nil
			r.begin(ctx, inUse)
			members.Go(func() { r.set.Run(ctx) })
		case exchange:
			former := inUse
			inUse, tried = tried.proven(), nil
			r.switchIngress(former, inUse)
		}
		now = next
		r.phase.Store(int32(now.phase))
	}
}

// facts are what is known of both sessions now.
func (r *App) facts(inUse *ingressSession, tried *attempt) facts {
	f := facts{wanted: r.wanted()}
	if inUse != nil {
		f.inUse, f.leads = inUse.key, inUse.elector.State().Leading
	}
	if tried != nil {
		f.tried, f.reached, f.listed = tried.key, tried.session.Load() != nil, tried.listed.Load()
	}
	return f
}

// signal makes run look at the facts again. It never blocks.
func (r *App) signal() {
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// wanted is the session that the configuration leads to.
func (r *App) wanted() sessionKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key(r.loaded)
}

// moved notes where the pages are served: a process outside of a cluster is known by it.
func (r *App) moved(address string) {
	r.mu.Lock()
	r.address = address
	r.mu.Unlock()
	r.signal()
}

// attempt is a session that is being proven.
type attempt struct {
	key sessionKey
	// session is set once it was answered, listed once it has listed what stands; err is
	// why no session can serve with this configuration.
	session atomic.Pointer[ingressSession]
	listed  atomic.Bool
	err     atomic.Pointer[error]
	stop    context.CancelFunc
	done    chan struct{}
}

// try begins to prove a session as the configuration has it, however long that takes.
func (r *App) try(ctx context.Context, inUse *ingressSession) *attempt {
	ctx, stop := context.WithCancel(ctx)
	a := &attempt{key: r.wanted(), stop: stop, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		defer r.signal()
		session, err := r.openSession(ctx, a.key, inUse)
		if err != nil {
			a.err.Store(&err)
		}
		if session == nil {
			return
		}
		a.session.Store(session)
		r.signal()
		a.listed.Store(r.listed(ctx, session, inUse))
	}()
	return a
}

// giveUp ends an attempt and the session that it has opened.
func (a *attempt) giveUp() {
	if a == nil {
		return
	}
	a.stop()
	<-a.done
	a.session.Load().end(nil)
}

// proven ends an attempt that has come to its end, and returns its session.
func (a *attempt) proven() *ingressSession {
	a.stop()
	<-a.done
	return a.session.Load()
}

// failed returns why no session can serve with this configuration.
func (a *attempt) failed() error {
	if a == nil || a.err.Load() == nil {
		return nil
	}
	return *a.err.Load()
}

// openSession opens and starts the ingress cluster as it is configured, trying until it
// answers. The session is nil when ctx ended first, or the configuration leads elsewhere.
func (r *App) openSession(ctx context.Context, key sessionKey, inUse *ingressSession) (*ingressSession, error) {
	pause := kube.NewBackoff(openRetry, openRetryLimit)
	for ctx.Err() == nil && r.wanted() == key {
		session, err := openIngress(ctx, r.sessionOptions(r.running(), inUse))
		if err == nil {
			session.follow()
			return session, nil
		}
		if ctx.Err() != nil {
			break
		}
		r.noteIngress(err)
		if errors.Is(err, ErrNoSlices) && inUse == nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.Next()):
		}
	}
	return nil, nil
}

// listed waits until a session has listed what stands; false when ctx is done.
func (r *App) listed(ctx context.Context, session, inUse *ingressSession) bool {
	for ctx.Err() == nil {
		look, stop := context.WithTimeout(ctx, listedLook)
		err := session.reconciler.WaitForSync(look)
		stop()
		if err == nil {
			return true
		}
		if err := session.reconciler.Trouble(); err != nil && inUse != nil {
			r.noteIngress(err)
		}
	}
	return false
}

// use makes a session the one that is told what the members report. The caller holds
// applying.
func (r *App) use(session *ingressSession) {
	r.ingress.Store(session)
	r.sink.to.Store(session.reconciler)
}

// switchIngress lets one session take the place of another. What the members report goes
// to the new one first, so that nothing is lost between the two; what the old one leaves
// undone is found by looking at everything. The Lease is kept for the new one, unless
// that has another name or asks for another Lease.
func (r *App) switchIngress(from, to *ingressSession) {
	r.applying.Lock()
	r.use(to)
	r.applying.Unlock()
	to.reconciler.Resync("", "resync")
	var cause error
	if from.key.election == to.key.election {
		cause = leader.ErrHandover
	}
	from.end(cause)
	to.serve(r.keepLeases, r.keepInventory, r.tellSinks)
	r.noteIngress(nil)
	r.logger.Info("ingress cluster is reached anew", "server", to.write.Host(), "version", to.watch.Version().String(), "replicas", to.reconciler.Owned())
	r.reportKept(to.reconciler)
}

// noteIngress remembers why the ingress cluster is not reached as it is configured,
// and says it once.
func (r *App) noteIngress(err error) {
	if err != nil && r.begun.Load() {
		err = fmt.Errorf("the new way to the ingress cluster does not work, the former connection stays: %w", err)
	}
	r.mu.Lock()
	before := r.ingressErr
	r.ingressErr = err
	r.mu.Unlock()
	switch {
	case err != nil && (before == nil || before.Error() != err.Error()):
		r.logger.Error("ingress cluster not reached, trying on", "error", err)
	case err == nil && before != nil:
		r.logger.Info("ingress cluster reached")
	}
}
