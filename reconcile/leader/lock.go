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
	"k8s.io/apimachinery/pkg/types"
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
	// longestClaim bounds what another's Lease is believed: as long as a configuration may
	// ask for (clusters/config), whatever this process's says.
	longestClaim = 10 * time.Minute
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
	// other is when another was last seen to hold the Lease since the last acknowledged write,
	// former the same as the term began; zero: nobody else has held it since the term before.
	other, former time.Time
	// term is whose the Lease was as of the last acknowledged write.
	term term
	// lease is as it was last read or written.
	lease *coordinationv1.Lease
	// version is the resourceVersion that was seen last, claimed until when another process
	// may count on the Lease by what was seen, by this process's own clock; zero: nobody.
	version string
	claimed time.Time
	// denied is true since this process has had no right to look.
	denied bool
}

// term tells one holder's time with a Lease from all others: how often it had changed hands.
type term struct {
	lease       types.UID
	transitions int32
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
// taken: it was released, never held, its own, or has run out, which shows as free. One
// that was deleted or whose holder was taken out by hand is not free before it would have
// run out: its holder writes until it notices. A holder puts its name back.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	for pause := reachFirst; ; {
		record, raw, err := l.get(ctx)
		switch {
		case l.leading && err == nil && record.HolderIdentity != l.identity && record.HolderIdentity != "":
			l.depose(record.HolderIdentity)
			return record, raw, nil
		case l.leading:
			return record, raw, err
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case apierrors.IsNotFound(err):
			if left := l.left(); left > 0 {
				wait(ctx, min(left, reachMax))
				continue
			}
			return record, raw, err
		case err != nil:
			l.denied = l.denied || apierrors.IsForbidden(err)
			wait(ctx, pause)
			pause = min(2*pause, reachMax)
			continue
		}
		pause = reachFirst
		if left := l.left(); left > 0 {
			l.await(ctx, left)
			continue
		}
		if record.HolderIdentity != l.identity {
			record.HolderIdentity = ""
		}
		return record, raw, nil
	}
}

// left is for how long another process may still count on the Lease.
func (l *lock) left() time.Duration { return time.Until(l.claimed) }

// claim is for how long a holder may count on the Lease: for its duration, from when a
// version of it is first seen, whatever clocks say. What is written there by hand does not
// shorten that below the duration of this process, nor make it endless.
func (l *lock) claim(record *resourcelock.LeaderElectionRecord) time.Duration {
	return max(min(time.Duration(record.LeaseDurationSeconds)*time.Second, longestClaim), l.times.LeaseDuration)
}

// isReleased reports whether the holder gave the Lease up, as client-go's elector does and
// release, or nobody has held it yet: one that is empty, and was not seen otherwise.
func (l *lock) isReleased(record *resourcelock.LeaderElectionRecord) bool {
	return record.AcquireTime.IsZero() && l.version == "" ||
		record.LeaseDurationSeconds == 1 && record.RenewTime.Equal(&record.AcquireTime)
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
	l.note(lease.ResourceVersion, record)
	l.seen(record.HolderIdentity, nil)
	return record, []byte(lease.ResourceVersion), nil
}

// note takes in a version of the Lease. One that was not seen for want of rights is like a
// new one: its holder may have had none either, and write alone until it looks again.
func (l *lock) note(version string, record *resourcelock.LeaderElectionRecord) {
	if version == l.version && !l.denied {
		return
	}
	switch record.HolderIdentity {
	case l.identity:
	case "":
		if l.isReleased(record) {
			l.claimed = time.Time{}
		} else if l.claimed.IsZero() {
			l.claimed = time.Now().Add(l.claim(record))
		}
	default:
		l.other = time.Now()
		l.claimed = l.other.Add(l.claim(record))
	}
	l.version, l.denied = version, false
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
			l.note(lease.ResourceVersion, record)
			l.seen(record.HolderIdentity, nil)
			if l.left() <= 0 {
				return
			}
			out.Reset(l.left())
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
		if _, _, err := l.get(ctx); err != nil || l.left() > 0 {
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
	was := l.term
	l.term = term{lease: lease.UID}
	if n := lease.Spec.LeaseTransitions; n != nil {
		l.term.transitions = *n
	}
	switch {
	case l.leading:
	case l.term == was:
		l.former = time.Time{}
	case l.other.IsZero(): // who it was nobody saw
		l.former = time.Now()
	default:
		l.former = l.other
	}
	l.other = time.Time{}
	l.leading, l.lease = true, lease
	l.version, l.claimed = lease.ResourceVersion, time.Time{}
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
