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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The pauses of a candidate between two attempts to reach the Lease.
const (
	reachFirst = 100 * time.Millisecond
	reachMax   = time.Second
	// maxConflicts bounds the attempts to take the Lease at once.
	maxConflicts = 3
)

// lock is the Lease as client-go's elector sees it. A candidate is not asked to poll:
// its Get waits, with a watch, until the Lease can be had. Acknowledged writes extend
// the Permit, and nothing else does.
//
// Get, Create and Update are called by one goroutine at a time.
type lock struct {
	leases   coordinationclient.LeaseInterface
	meta     metav1.ObjectMeta
	identity string
	times    Times
	permit   *Permit
	// seen is told who holds the Lease, or why that is not known.
	seen func(holder string, err error)
	// lost receives why leadership ended, when somebody else is seen to hold the Lease.
	lost chan string
	// leading is true from the first acknowledged write of a term.
	leading bool
	// lease is as it was last read or written.
	lease *coordinationv1.Lease
	// version is the resourceVersion that was seen last, seenAt when it first was, by
	// this process's own clock.
	version string
	seenAt  time.Time
}

// begin begins a term.
func (l *lock) begin() {
	l.leading = false
	l.permit.open()
	for _, c := range []<-chan string{l.lost, l.permit.refusals()} {
		select {
		case <-c:
		default:
		}
	}
}

// Get implements resourcelock.Interface. A candidate gets the Lease when it can be
// taken: it is free, its own, or has run out, which shows as free.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for pause := reachFirst; ; {
		record, raw, err := l.get(ctx)
		switch {
		case l.leading && err == nil && record.HolderIdentity != l.identity:
			l.depose(record.HolderIdentity)
			return record, raw, nil
		case l.leading || err == nil && l.mine(record) || apierrors.IsNotFound(err):
			return record, raw, err
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			wait(ctx, pause)
			pause = min(2*pause, reachMax)
			continue
		}
		pause = reachFirst
		if left := l.left(record); left > 0 {
			l.await(ctx, left)
			continue
		}
		record.HolderIdentity = ""
		return record, raw, nil
	}
}

func (l *lock) mine(record *resourcelock.LeaderElectionRecord) bool {
	return record.HolderIdentity == "" || record.HolderIdentity == l.identity
}

// left is for how long the holder may still count on the Lease: it has its duration
// from when a version of it is first seen, whatever clocks say.
func (l *lock) left(record *resourcelock.LeaderElectionRecord) time.Duration {
	return time.Until(l.seenAt.Add(time.Duration(record.LeaseDurationSeconds) * time.Second))
}

// get reads the Lease once and notes what it says.
func (l *lock) get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	lease, err := l.leases.Get(ctx, l.meta.Name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			l.seen("", nil)
		} else {
			l.seen("", err)
		}
		return nil, nil, err
	}
	l.lease = lease
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	l.note(lease.ResourceVersion)
	l.seen(record.HolderIdentity, nil)
	return record, []byte(lease.ResourceVersion), nil
}

func (l *lock) note(version string) {
	if version != l.version {
		l.version, l.seenAt = version, time.Now()
	}
}

// timeout bounds one request: an answer that never comes leaves time for another.
func (l *lock) timeout() time.Duration { return l.times.RenewDeadline / 2 }

// await waits until the Lease has changed hands, is gone, or has run out as far as the
// watch tells. It is read again in any case.
func (l *lock) await(ctx context.Context, left time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := time.NewTimer(left)
	defer out.Stop()
	stream, err := l.leases.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, l.meta.Name).String(), ResourceVersion: l.version,
	})
	if err != nil { // no right to watch: as client-go does it
		wait(ctx, min(left, l.times.RetryPeriod))
		return
	}
	defer stream.Stop()
	for {
		select {
		case event, open := <-stream.ResultChan():
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !open || !ok || event.Type == watch.Deleted {
				wait(ctx, min(left, reachFirst))
				return
			}
			record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
			l.note(lease.ResourceVersion)
			l.seen(record.HolderIdentity, nil)
			if l.mine(record) {
				return
			}
			out.Reset(l.left(record))
		case <-out.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// depose says that somebody else holds the Lease.
func (l *lock) depose(holder string) {
	l.permit.Revoke()
	select {
	case l.lost <- fmt.Sprintf("%q holds the Lease", holder):
	default:
	}
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	lease := &coordinationv1.Lease{ObjectMeta: l.meta, Spec: resourcelock.LeaderElectionRecordToLeaseSpec(&record)}
	return l.write(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.leases.Create(ctx, lease, metav1.CreateOptions{})
	})
}

// Update implements resourcelock.Interface. A conflict is looked into at once: what a
// process before this one sent with its last breath makes one.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	for n := 1; ; n++ {
		err := l.update(ctx, record)
		if !apierrors.IsConflict(err) || l.leading || n == maxConflicts {
			return err
		}
		if now, _, err := l.get(ctx); err != nil || !l.mine(now) {
			return apierrors.NewConflict(coordinationv1.Resource("leases"), l.meta.Name, err)
		}
	}
}

func (l *lock) update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	lease := l.lease.DeepCopy()
	lease.Spec = resourcelock.LeaderElectionRecordToLeaseSpec(&record)
	for key, value := range l.meta.Labels {
		metav1.SetMetaDataLabel(&lease.ObjectMeta, key, value)
	}
	return l.write(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	})
}

// write holds the Lease. The Permit counts from before the request was sent: others
// count from after it was stored.
func (l *lock) write(ctx context.Context, send func(context.Context) (*coordinationv1.Lease, error)) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	sent := time.Now()
	lease, err := send(ctx)
	if err != nil {
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			l.seen("", err)
		}
		return err
	}
	l.permit.extend(sent.Add(l.times.RenewDeadline))
	l.leading, l.lease = true, lease
	l.note(lease.ResourceVersion)
	l.seen(l.identity, nil)
	return nil
}

// release gives the Lease up, if it is held.
func (l *lock) release(ctx context.Context) error {
	lease, err := l.leases.Get(ctx, l.meta.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != l.identity {
		return err
	}
	now := metav1.NowMicro()
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	_, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		l.seen("", nil)
	}
	return err
}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return l.identity }

// Describe implements resourcelock.Interface.
func (l *lock) Describe() string { return l.meta.Namespace + "/" + l.meta.Name }

// RecordEvent implements resourcelock.Interface; the log and the status tell it.
func (l *lock) RecordEvent(string) {}
