// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"tributary.dev/tributary/metrics"
)

// lock is the Lease as client-go's elector sees it: a candidate sees it only when it can be had. All
// exported methods are called by one goroutine at a time.
type lock struct {
	resourcelock.LeaseLock
	opts Options
	// term says who may count on the Lease, end ends the candidacy, and with it the Permit.
	term Term
	end  func()

	mu    sync.Mutex
	state metrics.LeaderStatus // guarded by mu; whether it leads the Permit tells
}

// Get returns the Lease to a candidate when nobody can count on it any more, and then as one that
// is free.
func (l *lock) Get(ctx context.Context) (r *Record, raw []byte, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { r, raw, err = l.LeaseLock.Get(ctx); return err })
	missing := apierrors.IsNotFound(err)
	held, lapsed := l.opts.Permit.state()
	leading, now := held || lapsed, time.Now()
	if err == nil {
		l.term.Saw(now, r)
		l.saw(r.HolderIdentity, nil)
	}
	switch {
	case err != nil && !missing:
		return nil, nil, err
	case leading && !missing && r.HolderIdentity != "" && r.HolderIdentity != l.opts.Identity:
		l.end()
		return nil, nil, fmt.Errorf("%q holds the Lease", r.HolderIdentity)
	case !leading && !l.term.MayTake(now):
		return nil, nil, errors.New("another process may count on the Lease")
	case !missing && r.HolderIdentity != l.opts.Identity:
		r.HolderIdentity = ""
	}
	return r, raw, err
}

// Create implements resourcelock.Interface, as Get and Update do.
func (l *lock) Create(ctx context.Context, r Record) error {
	return l.write(ctx, r, l.LeaseLock.Create)
}

// Update gets, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, r Record) error {
	return l.write(ctx, r, l.LeaseLock.Update)
}

// write gets or renews the Lease; without a holder it is released.
func (l *lock) write(ctx context.Context, r Record, send func(context.Context, Record) error) error {
	if r.HolderIdentity == "" {
		l.opts.Permit.revoke()
	}
	sent := time.Now()
	if err := l.do(ctx, func(ctx context.Context) error { return send(ctx, r) }); err != nil {
		return err
	}
	if r.HolderIdentity != "" {
		l.opts.Permit.extend(l.term.Renewed(sent))
	}
	l.saw(r.HolderIdentity, nil)
	return nil
}

// do makes a request. Its timeout leaves time for others, and for an orderly end.
func (l *lock) do(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(3*time.Second, l.term.RenewDeadline()/3))
	defer cancel()
	client, err := l.opts.Client(ctx)
	if err == nil {
		l.Client = client.CoordinationV1()
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
