// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The ingress cluster is reached by one session at a time. When its kubeconfig is edited,
// the session in use serves until another has proven itself by listing all that stands;
// one that is refused takes nothing from it. Two never write at once.

// The pauses between two attempts to open the ingress cluster, and between two looks
// at one that does not let itself be listed.
const (
	openRetry      = 250 * time.Millisecond
	openRetryLimit = 5 * time.Second
	listedLook     = 250 * time.Millisecond
)

// firstSession reaches the ingress cluster and lists what stands, however long it takes.
// The session is nil when ctx ended first.
func (r *App) firstSession(ctx context.Context) (*ingressSession, error) {
	for {
		session, err := r.openSession(ctx, nil)
		if session == nil {
			return nil, err
		}
		r.noteIngress(nil)
		r.ingress.Store(session) // so that people see what it waits for
		if r.listed(ctx, session) {
			return session, nil
		}
		r.ingress.Store(nil)
		session.end()
	}
}

// nextSession waits until the configuration current to the ingress cluster differently than
// the session that serves, and until that way has proven itself. nil: ctx is done.
func (r *App) nextSession(ctx context.Context, serving *ingressSession) *ingressSession {
	for ctx.Err() == nil {
		if r.current(serving) {
			r.noteIngress(nil) // the edit was taken back, if there was one
			select {
			case <-ctx.Done():
			case <-r.reopen:
			}
			continue
		}
		session, _ := r.openSession(ctx, serving) // an error would end a start
		if session == nil {
			continue
		}
		if r.listed(ctx, session) {
			return session
		}
		session.end()
	}
	return nil
}

// current reports whether a session is the way that the configuration tells.
func (r *App) current(session *ingressSession) bool { return r.running().Ingress.Hash == session.hash }

// openSession opens and starts the ingress cluster as it is configured, trying until it
// answers. The session is nil when ctx ended first, or the configuration current back to
// the one that serves.
func (r *App) openSession(ctx context.Context, serving *ingressSession) (*ingressSession, error) {
	for pause := openRetry; ctx.Err() == nil && (serving == nil || !r.current(serving)); pause = min(2*pause, openRetryLimit) {
		loaded := r.running()
		session, err := openIngress(ctx, r.sessionOptions(loaded))
		if err == nil {
			session.start(ctx, func(ctx context.Context) { r.keepLeases(ctx, session) })
			return session, nil
		}
		if ctx.Err() != nil {
			break
		}
		r.noteIngress(err)
		if errors.Is(err, ErrNoSlices) && r.ingress.Load() == nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
		case <-r.reopen:
			pause = openRetry / 2
		case <-time.After(pause):
		}
	}
	return nil, nil
}

// listed waits until a session has listed what stands; false when it is not to be used:
// ctx is done, or the configuration current elsewhere meanwhile.
func (r *App) listed(ctx context.Context, session *ingressSession) bool {
	for ctx.Err() == nil && r.current(session) {
		look, stop := context.WithTimeout(ctx, listedLook)
		err := session.reconciler.WaitForSync(look)
		stop()
		if err == nil {
			return r.current(session)
		}
		if err := session.reconciler.Trouble(); err != nil && r.ingress.Load() != session {
			r.noteIngress(err)
		}
	}
	return false
}

// use makes a session the one that is told what the members report and how to write. The
// caller holds applying.
func (r *App) use(session *ingressSession) {
	session.reconciler.SetSettings(settings(&r.running().Config))
	r.ingress.Store(session)
	r.sink.to.Store(session.reconciler)
}

// switchIngress lets one session write in place of another. What the members report goes to
// the new one first, so that nothing is lost between the two; what the old one leaves
// undone is found by looking at everything.
func (r *App) switchIngress(from, to *ingressSession) {
	r.applying.Lock()
	r.use(to)
	r.applying.Unlock()
	to.reconciler.Resync("", "resync")
	from.end()
	close(to.turn)
	r.noteIngress(nil)
	r.logger.Info("ingress cluster is reached anew", "server", to.write.Host(), "version", to.version.String(), "replicas", to.reconciler.Owned())
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
