// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// lock is the Elector as client-go's elector sees it, the Lease: a candidate sees it only when it
// can be had. All methods are called by one goroutine at a time.
type lock Elector

// Identity implements resourcelock.Interface, as all below do.
func (l *lock) Identity() string { return l.opts.Identity }

// Describe names the Lease.
func (l *lock) Describe() string { return l.lease.Describe() }

// RecordEvent does nothing: what is said of leading is in the log.
func (l *lock) RecordEvent(string) {}

// Get returns the Lease to a candidate when nobody can count on it any more, and then as one that
// is free.
func (l *lock) Get(ctx context.Context) (r *Record, raw []byte, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { r, raw, err = l.lease.Get(ctx); return err })
	missing := apierrors.IsNotFound(err)
	now := time.Now()
	if err == nil {
		l.term.Saw(now, r)
		l.saw(r.HolderIdentity, nil)
	}
	switch {
	case err != nil && !missing:
		return nil, nil, err
	case l.leading && !missing && r.HolderIdentity != "" && r.HolderIdentity != l.opts.Identity:
		l.end()
		return nil, nil, fmt.Errorf("%q holds the Lease", r.HolderIdentity)
	case !l.leading && !l.term.MayTake(now):
		return nil, nil, errors.New("another process may count on the Lease")
	case !missing && r.HolderIdentity != l.opts.Identity:
		r.HolderIdentity = ""
	}
	return r, raw, err
}

// Create gets the Lease where there is none.
func (l *lock) Create(ctx context.Context, r Record) error {
	return l.hold(ctx, func(ctx context.Context) error { return l.lease.Create(ctx, r) })
}

// Update gets or renews the Lease. The elector releases the Lease by one without a holder.
func (l *lock) Update(ctx context.Context, r Record) error {
	if r.HolderIdentity == "" {
		l.opts.Permit.revoke()
		return l.do(ctx, func(ctx context.Context) error { return l.lease.Update(ctx, r) })
	}
	return l.hold(ctx, func(ctx context.Context) error { return l.lease.Update(ctx, r) })
}

// hold gets or renews the Lease.
func (l *lock) hold(ctx context.Context, send func(context.Context) error) error {
	sent := time.Now()
	if err := l.do(ctx, send); err != nil {
		return err
	}
	l.opts.Permit.extend(l.term.Renewed(sent))
	l.leading = true
	l.saw(l.opts.Identity, nil)
	return nil
}

// do makes a request. Its timeout leaves time for others, and for an orderly end.
func (l *lock) do(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(3*time.Second, l.term.RenewDeadline()/3))
	defer cancel()
	client, err := l.opts.Client(ctx)
	if err == nil {
		l.lease.Client = client.CoordinationV1()
		err = send(ctx)
	}
	switch {
	case apierrors.IsNotFound(err):
		l.saw("", nil)
	case err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
		l.saw("", err)
	}
	return err
}

// saw records who holds the Lease, or why that is not known.
func (l *lock) saw(holder string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.state
	if err != nil {
		if s.Error == "" {
			l.opts.Logger.Warn("the leader's Lease is not reached, trying on", "lease", s.Lease, "error", err)
		}
		s.Error = err.Error()
		return
	}
	if s.Holder != holder && holder != "" && holder != s.Identity {
		l.opts.Logger.Info("another process leads, this one is on standby", "lease", s.Lease, "leader", holder)
	}
	s.Holder, s.Error = holder, ""
}
