// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the Lease as client-go's elector sees it: a candidate sees it only when it can be
// had. All methods are called by one goroutine at a time.
type lock struct {
	resourcelock.LeaseLock
	opts *Options
	// saw is told who holds the Lease, or why that is not known; end ends the candidacy, and with it
	// the Permit.
	saw func(holder string, err error)
	end func()
	// leading is true from the first acknowledged write of a candidacy.
	leading atomic.Bool
	term    Term
}

func newLock(o *Options, saw func(string, error)) *lock {
	l := &lock{opts: o, saw: saw, term: Term{Identity: o.Identity, Lease: o.LeaseDuration}}
	l.LeaseMeta, l.Labels = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, o.Labels
	l.LockConfig.Identity = o.Identity
	return l
}

// Get shows a candidate the Lease when nobody can count on it any more, then as one that is
// free.
func (l *lock) Get(ctx context.Context) (r *Record, raw []byte, err error) {
	err = l.do(ctx, func(ctx context.Context) (err error) { r, raw, err = l.LeaseLock.Get(ctx); return err })
	missing := apierrors.IsNotFound(err)
	now := time.Now()
	if err == nil {
		l.term.Saw(now, r)
		l.saw(r.HolderIdentity, nil)
	}
	switch {
	case err != nil && !missing:
		return nil, nil, err
	case l.leading.Load() && !missing && r.HolderIdentity != "" && r.HolderIdentity != l.opts.Identity:
		l.end()
		return nil, nil, fmt.Errorf("%q holds the Lease", r.HolderIdentity)
	case !l.leading.Load() && !l.term.MayTake(now):
		return nil, nil, errors.New("another process may count on the Lease")
	case !missing && r.HolderIdentity != l.opts.Identity:
		r.HolderIdentity = ""
	}
	return r, raw, err
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r Record) error {
	return l.hold(ctx, func(ctx context.Context) error { return l.LeaseLock.Create(ctx, r) })
}

// Update implements resourcelock.Interface. The elector releases the Lease by one without a holder.
func (l *lock) Update(ctx context.Context, r Record) error {
	if r.HolderIdentity == "" {
		l.opts.Permit.revoke()
		return l.do(ctx, func(ctx context.Context) error { return l.LeaseLock.Update(ctx, r) })
	}
	return l.hold(ctx, func(ctx context.Context) error { return l.LeaseLock.Update(ctx, r) })
}

// hold gets or renews the Lease.
func (l *lock) hold(ctx context.Context, send func(context.Context) error) error {
	sent := time.Now()
	if err := l.do(ctx, send); err != nil {
		return err
	}
	l.opts.Permit.extend(l.term.Renewed(sent))
	l.leading.Store(true)
	l.saw(l.opts.Identity, nil)
	return nil
}

// do makes a request. An answer that never comes leaves time for others, and for an end in order.
func (l *lock) do(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(3*time.Second, l.term.RenewDeadline()/3))
	defer cancel()
	client, err := l.opts.Client(ctx)
	if err == nil {
		l.LeaseLock.Client = client.CoordinationV1()
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
