// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Verbs are what an election does with its Lease; without "watch", which it can do
// without, a release is noticed only after a RetryPeriod.
func Verbs() []string { return []string{"create", "get", "update"} }

const (
	// An API server that has just started denies what it grants a moment later: only
	// what is denied confirmations times in a row is believed.
	confirmations = 3
	confirmAfter  = 700 * time.Millisecond
	tryTimeout    = 5 * time.Second
	// aloneAfter is for how many lease durations nobody has been seen to hold the Lease
	// before a process without rights writes alone.
	aloneAfter = 3
)

// mayNot says why this process may not take part, "" if it may. It asks until it is told: who
// takes part without rights waits for a Lease that it never gets.
func (e *Elector) mayNot(ctx context.Context) string {
	for n := 1; ; n++ {
		reason, err := e.denied(ctx)
		switch {
		case ctx.Err() != nil || err == nil && (reason == "" || n == confirmations):
			return reason
		case err != nil:
			n = 0
			e.saw("", err)
		}
		wait(ctx, confirmAfter)
	}
}

// mayBeAlone reports whether this process may write though it has no rights to the Lease:
// where nobody has been seen to lead it may. Where another has, it stands by until it has
// rights, or, if it may read the Lease, until nobody has renewed that for long. So does the
// last holder, which may look at nothing: somebody else's Lease cannot be meant by it. It
// returns false when ctx is done, or when there are rights again, and one that wrote alone
// meanwhile has had the time to see it.
func (e *Elector) mayBeAlone(ctx context.Context, reason string) bool {
	holder := e.State().Holder
	if holder == "" {
		return true
	}
	e.opts.Logger.Error("NO RIGHTS TO THE LEADER'S LEASE: this process stands by", "lease", e.lock.Describe(), "leader", holder, "reason", reason)
	e.saw("", errors.New(reason))
	for since, version := time.Now(), e.lock.version; ctx.Err() == nil; {
		wait(ctx, e.opts.Times.RetryPeriod)
		denied, err := e.denied(ctx)
		if err == nil && denied == "" {
			wait(ctx, e.opts.Times.LeaseDuration)
			return false
		}
		if err != nil || e.lock.version != version { // what cannot be seen may have been renewed
			since, version = time.Now(), e.lock.version
		}
		mayLook := !e.lock.denied || e.State().Holder == e.opts.Identity
		if mayLook && time.Since(since) >= aloneAfter*e.opts.Times.LeaseDuration {
			return true
		}
	}
	return false
}

// awaitRights returns when this process may take part, another is seen to have taken the
// Lease, or ctx is done. It looks as often as a leader renews, and bears to be told nothing
// for as long, so that it has stopped writing before another has waited long enough.
func (e *Elector) awaitRights(ctx context.Context) {
	version, told := e.lock.version, time.Now()
	for ctx.Err() == nil {
		wait(ctx, e.opts.Times.RetryPeriod)
		asked := time.Now()
		denied, err := e.denied(ctx)
		if err == nil {
			told = asked
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if time.Since(told) >= e.opts.Times.RenewDeadline {
				e.opts.Logger.Warn("this process writes no longer: the API server does not say who may", "lease", e.lock.Describe(), "error", err)
				return
			}
		case denied == "":
			e.opts.Logger.Info("Leases may be written now: this process takes part in the election", "lease", e.lock.Describe())
			return
		case e.lock.version != version && e.lock.left() > 0:
			return
		}
	}
}

// denied tries once, changing nothing; err is why nobody can tell.
func (e *Elector) denied(ctx context.Context) (reason string, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	leases := e.opts.Client.CoordinationV1().Leases(e.opts.Namespace)
	lease, err := leases.Get(ctx, e.opts.Name, metav1.GetOptions{})
	verb := "get"
	switch {
	case apierrors.IsForbidden(err):
		e.lock.denied = true
	case err == nil:
		verb = "update"
		if _, err = leases.Update(ctx, lease, metav1.UpdateOptions{DryRun: dryRun}); apierrors.IsForbidden(err) {
			e.looked(lease)
		}
	case apierrors.IsNotFound(err):
		verb = "create"
		e.lock.denied = false
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.opts.Name, Namespace: e.opts.Namespace}}
		if _, err = leases.Create(ctx, lease, metav1.CreateOptions{DryRun: dryRun}); apierrors.IsNotFound(err) {
			if reason, err = e.makeNamespace(ctx); reason != "" || err != nil {
				return reason, err
			}
			_, err = leases.Create(ctx, lease, metav1.CreateOptions{DryRun: dryRun})
		}
	}
	switch {
	case verb == "create" && apierrors.IsNotFound(err):
		return fmt.Sprintf("namespace %s does not exist, and who may make it cannot be told", e.opts.Namespace), nil
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("may not %s leases.coordination.k8s.io in namespace %s: %v", verb, e.opts.Namespace, err), nil
	case tellsNothing(err):
		return "", err
	}
	return "", nil
}

// tellsNothing reports whether an answer leaves open who may do what: none came, or none by a
// server that knew. One that refuses for another reason than rights has looked at these before.
func tellsNothing(err error) bool {
	var answer apierrors.APIStatus
	if err == nil || !errors.As(err, &answer) {
		return err != nil
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	default:
		return code >= http.StatusInternalServerError
	}
}

// looked notes who holds the Lease, which this process may read alone.
func (e *Elector) looked(lease *coordinationv1.Lease) {
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	e.lock.note(lease.ResourceVersion, record)
	if record.HolderIdentity != e.State().Holder {
		e.set(func(s *State) { s.Holder = record.HolderIdentity })
	}
}

// dryRun lets the API server check everything and store nothing.
var dryRun = []string{metav1.DryRunAll}

// makeNamespace makes the Lease's namespace, which is missing, and says why that is not
// possible; err is why nobody can tell.
func (e *Elector) makeNamespace(ctx context.Context) (reason string, err error) {
	_, err = e.opts.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.opts.Namespace, Labels: e.opts.Labels}}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("namespace %s does not exist, and may not be made: %v", e.opts.Namespace, err), nil
	}
	if tellsNothing(err) {
		return "", err
	}
	return "", nil
}
