// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// errNoRights is why nothing can be written although the server is there.
var errNoRights = errors.New("not allowed to update")

// turnedAway reports an answer that the server gives to whoever has no right to write.
func turnedAway(err error) bool {
	return errors.Is(err, errNoRights) || kube.NotAllowed(err)
}

// askIngress asks over the connection that writes go through whether it could be written
// to: it reads something that whoever may write may read, and with doubt asks for the
// rights, for a version is told to anybody, and at last tries out an update of something
// that stands.
func (r *Reconciler) askIngress(ctx context.Context, doubt doubt) error {
	err := r.askAlive(ctx)
	if err == nil && doubt > noDoubt || turnedAway(err) {
		err = r.askRights(ctx)
	}
	if err == nil && doubt == doubtWrites {
		err = r.tryOut(ctx)
	}
	if apierrors.IsTooManyRequests(err) {
		err = nil // busy, and there
	}
	if err == nil || write.Answered(err) || turnedAway(err) {
		r.contact.Store(time.Now().UnixNano())
	}
	return err
}

// askAlive reads an object of ours; where none stands, the version.
func (r *Reconciler) askAlive(ctx context.Context) error {
	one := r.cache.Sample(r.probed(), "")
	if one == nil {
		return r.askVersion(ctx)
	}
	if _, err := r.writer.Read(ctx, one.ID); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// probed is the kind of objects that probes are about.
func (r *Reconciler) probed() plan.Kind {
	if r.opts.Source.Settings().WriteEndpoints {
		return plan.KindEndpoints
	}
	return plan.KindEndpointSlice
}

// askedNamespaces is in how many namespaces the right to write must be missing before
// it is taken to be missing altogether: one alone may be closed to us.
const askedNamespaces = 3

// askRights asks whether we may write where replicas stand.
func (r *Reconciler) askRights(ctx context.Context) error {
	namespaces := r.cache.Namespaces(askedNamespaces)
	if last := r.takenIn.Load(); last != nil {
		namespaces = append([]string{*last}, slices.DeleteFunc(namespaces, func(ns string) bool { return ns == *last })...)
	}
	var err error
	for _, namespace := range namespaces {
		if err = r.askRight(ctx, namespace); !errors.Is(err, errNoRights) {
			return err
		}
	}
	return cmp.Or(err, r.askVersion(ctx))
}

func (r *Reconciler) askRight(ctx context.Context, namespace string) error {
	attributes := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "update", Resource: "endpoints"}
	if r.probed() == plan.KindEndpointSlice {
		attributes.Group, attributes.Resource = discoveryv1.GroupName, "endpointslices"
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	err := r.opts.Writer.AuthorizationV1().RESTClient().Post().Resource("selfsubjectaccessreviews").MaxRetries(0).Body(review).Do(ctx).Into(review)
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err): // a server that does not tell
		return r.askVersion(ctx)
	case err != nil:
		return err
	case !review.Status.Allowed:
		return fmt.Errorf("%w %s in namespace %s, says the ingress cluster: %s", errNoRights, attributes.Resource, namespace,
			cmp.Or(review.Status.EvaluationError, review.Status.Reason, "no role grants it"))
	}
	return nil
}

// askVersion asks for what whoever could start may read.
func (r *Reconciler) askVersion(ctx context.Context) error {
	return r.opts.Writer.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
}

// tryOut lets the server check an update that changes nothing, of an object of ours away
// from where writes are denied, if there is one. Only a denial is an error: anything
// else is that object's own affair.
func (r *Reconciler) tryOut(ctx context.Context) error {
	avoid := ""
	if last := r.deniedIn.Load(); last != nil {
		avoid = *last
	}
	one := r.cache.Sample(r.probed(), avoid)
	if one == nil {
		return nil
	}
	if err := r.writer.TryOut(ctx, one.ID); err != nil && (kube.Denied(err) || !write.Answered(err)) {
		return err
	}
	return nil
}

// Trouble returns why the ingress cluster is not seen or not written to, nil if it is.
func (r *Reconciler) Trouble() error {
	return cmp.Or(r.breaker.trouble(), r.observer.trouble())
}

// LastContact is when the ingress cluster was last heard of: an answer, an event or a
// bookmark; zero if never.
func (r *Reconciler) LastContact() time.Time {
	if at := max(r.contact.Load(), r.observer.contact.Load()); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}
