// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Verbs are what an election does with its Lease; without "watch", which it can do
// without, a release is noticed only after a RetryPeriod.
func Verbs() []string { return []string{"create", "get", "update"} }

const (
	// An API server that has just started denies what it grants a moment later: only
	// what is denied confirmations times in a row is believed.
	confirmations = 3
	confirmAfter  = 700 * time.Millisecond
	// rightsEvery is how often one that writes alone looks whether it need not.
	rightsEvery   = time.Minute
	reviewTimeout = 5 * time.Second
)

// mayNot says why this process may not take part, "" if it may, or nobody can tell.
func (e *Elector) mayNot(ctx context.Context) string {
	for n := 1; ; n++ {
		reason := e.denied(ctx)
		if reason == "" || n == confirmations || ctx.Err() != nil {
			return reason
		}
		wait(ctx, confirmAfter)
	}
}

// awaitRights returns when this process may take part, or ctx is done.
func (e *Elector) awaitRights(ctx context.Context) {
	for ctx.Err() == nil {
		wait(ctx, rightsEvery)
		if ctx.Err() == nil && e.denied(ctx) == "" {
			e.opts.Logger.Info("Leases may be written now: this process takes part in the election", "lease", e.lock.Describe())
			return
		}
	}
}

// denied asks once. What cannot be asked is not denied.
func (e *Elector) denied(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	var missing []string
	for _, verb := range Verbs() {
		review, err := e.opts.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "coordination.k8s.io", Resource: "leases", Namespace: e.opts.Namespace, Verb: verb,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return ""
		}
		if !review.Status.Allowed {
			missing = append(missing, verb)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("may not %s leases.coordination.k8s.io in namespace %s", strings.Join(missing, ","), e.opts.Namespace)
	}
	return e.makeNamespace(ctx)
}

// makeNamespace makes the Lease's namespace where it is missing, and says why that is
// not possible.
func (e *Elector) makeNamespace(ctx context.Context) string {
	namespaces, name := e.opts.Client.CoreV1().Namespaces(), e.opts.Namespace
	if _, err := namespaces.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return "" // it is there, or nobody knows
	}
	_, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("namespace %s does not exist, and may not be made: %v", name, err)
	}
	return ""
}
