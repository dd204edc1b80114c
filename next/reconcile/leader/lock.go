// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the Lease as client-go's elector sees it; it is a resourcelock.Interface, called by
// one goroutine at a time. A candidate sees the Lease only when it can be had.
type lock struct {
	opts *Options
	// seen is told who holds the Lease, or why that is not known; deposed is called when a
	// holder finds that somebody else does.
	seen    func(holder string, err error)
	deposed func()
	// leading is true from the first acknowledged write of a term.
	leading bool
	// lease is as it was read or written last; claimed is until when another process may
	// count on it, by this one's monotonic clock.
	lease   *coordinationv1.Lease
	claimed time.Time
}

type (
	record  = resourcelock.LeaderElectionRecord
	request = func(context.Context, coordinationclient.LeaseInterface) (*coordinationv1.Lease, error)
)

// Get shows a candidate the Lease when nobody can count on it any more, then as one that is
// free. One that was deleted, or whose holder was taken out by hand, is not free before it
// would have run out: its holder writes until it notices.
func (l *lock) Get(ctx context.Context) (*record, []byte, error) {
	r, err := l.read(ctx)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return nil, nil, err
	case l.leading && err == nil && r.HolderIdentity != "" && r.HolderIdentity != l.opts.Identity:
		l.deposed()
		return nil, nil, fmt.Errorf("%q holds the Lease", r.HolderIdentity)
	case !l.leading && time.Now().Before(l.claimed):
		return nil, nil, fmt.Errorf("another process may count on the Lease for %s", time.Until(l.claimed))
	case err != nil:
		return nil, nil, err
	case r.HolderIdentity != l.opts.Identity:
		r.HolderIdentity = ""
	}
	return r, []byte(l.lease.ResourceVersion), nil
}

// read reads the Lease and notes what it says.
func (l *lock) read(ctx context.Context) (*record, error) {
	lease, err := l.do(ctx, func(ctx context.Context, c coordinationclient.LeaseInterface) (*coordinationv1.Lease, error) {
		return c.Get(ctx, l.opts.Name, metav1.GetOptions{})
	})
	if err != nil {
		return nil, err
	}
	r := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	released := r.HolderIdentity == "" && r.LeaseDurationSeconds == 1 && r.RenewTime.Equal(&r.AcquireTime)
	switch {
	case released || r.HolderIdentity == l.opts.Identity:
		l.claimed = time.Time{}
	case r.HolderIdentity != "" && (l.lease == nil || l.lease.ResourceVersion != lease.ResourceVersion):
		l.claimed = time.Now().Add(max(l.opts.LeaseDuration, min(longestClaim, time.Duration(r.LeaseDurationSeconds)*time.Second)))
	}
	l.lease = lease
	l.seen(r.HolderIdentity, nil)
	return r, nil
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r record) error {
	l.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.opts.Namespace, Name: l.opts.Name, Labels: l.opts.Labels}}
	return l.hold(ctx, &r, func(ctx context.Context, c coordinationclient.LeaseInterface) (*coordinationv1.Lease, error) {
		return c.Create(ctx, l.with(&r), metav1.CreateOptions{})
	})
}

// Update implements resourcelock.Interface.
func (l *lock) Update(ctx context.Context, r record) error { return l.hold(ctx, &r, l.put(&r)) }

func (l *lock) put(r *record) request {
	return func(ctx context.Context, c coordinationclient.LeaseInterface) (*coordinationv1.Lease, error) {
		return c.Update(ctx, l.with(r), metav1.UpdateOptions{})
	}
}

func (l *lock) with(r *record) *coordinationv1.Lease {
	lease := l.lease.DeepCopy()
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(r)
	return lease
}

// hold gets or renews the Lease. The Permit counts from before the request was sent: others
// count from after it was stored.
func (l *lock) hold(ctx context.Context, r *record, send request) error {
	sent := time.Now()
	lease, err := l.do(ctx, send)
	if err != nil {
		return err
	}
	l.opts.Permit.extend(sent.Add(l.opts.renewDeadline()))
	l.leading, l.lease, l.claimed = true, lease, time.Time{}
	l.seen(r.HolderIdentity, nil)
	return nil
}

// release gives the Lease up if this process holds it. Nobody writes any more.
func (l *lock) release(ctx context.Context) error {
	r, err := l.read(ctx)
	if err != nil || r.HolderIdentity != l.opts.Identity {
		return err
	}
	now := metav1.Now()
	_, err = l.do(ctx, l.put(&record{LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now, LeaderTransitions: r.LeaderTransitions}))
	return err
}

// do makes one request. An answer that never comes leaves time for others.
func (l *lock) do(ctx context.Context, send request) (lease *coordinationv1.Lease, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.renewDeadline()/3)
	defer cancel()
	client, err := l.opts.Client(ctx)
	if err == nil {
		lease, err = send(ctx, client.CoordinationV1().Leases(l.opts.Namespace))
	}
	switch {
	case apierrors.IsNotFound(err):
		l.seen("", nil)
	case err != nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
		l.seen("", err)
	}
	return lease, err
}

// Identity, Describe and RecordEvent complete resourcelock.Interface.
func (l *lock) Identity() string   { return l.opts.Identity }
func (l *lock) Describe() string   { return l.opts.Namespace + "/" + l.opts.Name }
func (l *lock) RecordEvent(string) {}
