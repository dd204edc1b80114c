// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"cmp"
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
)

// askIngress asks over the connection that writes go through whether it could be written
// to: it reads, and in doubt has updates tried out, which needs the rights that a write
// needs. Who stands by only reads.
func (r *Reconciler) askIngress(ctx context.Context, doubt bool) (err error) {
	leads := r.leadership.leads()
	if doubt && leads {
		err = r.tryOut(ctx)
	} else {
		err = r.askObjects(ctx, 1, "", func(one *cache.Object) error {
			_, err := r.writer.Read(ctx, one.ID)
			return err
		})
		switch { // it is not allowed, perhaps, to read alone
		case kube.NotAllowed(err) && leads:
			err = r.askRights(ctx, err)
		case kube.NotAllowed(err):
			err = r.askVersion(ctx)
		}
	}
	if apierrors.IsTooManyRequests(err) {
		err = nil // busy, and there
	}
	if err == nil || write.Answered(err) {
		r.contact.Store(time.Now().UnixNano())
	}
	return err
}

// askedNamespaces is in how many namespaces a write must be denied before all are taken to
// be: one alone may be closed to us.
const askedNamespaces = 3

// denial is a write that was denied.
type denial struct {
	namespace string
	err       error
}

// tryOut lets the server check updates that change nothing, away from where writes are
// denied, if something of ours stands there. Where nothing of ours stands at all, nothing was
// ever taken.
func (r *Reconciler) tryOut(ctx context.Context) error {
	last := r.denial.Load()
	if r.cache.Owned() == 0 {
		return last.err
	}
	return r.askObjects(ctx, askedNamespaces, last.namespace, func(one *cache.Object) error {
		if one.Endpoints != nil {
			return r.writer.DryRun(ctx, one.Replica, one.Endpoints.Unchanged())
		}
		return r.writer.DryRun(ctx, one.Replica, one.Slice.Unchanged())
	})
}

// askRights asks for the right to update what stands, and returns why it may not be read
// where there is none. Unlike an update that is tried out, the question is no write to
// anybody who counts them, and servers that have just started deny what they grant later.
func (r *Reconciler) askRights(ctx context.Context, unread error) error {
	return r.askObjects(ctx, askedNamespaces, "", func(one *cache.Object) error {
		attributes := &authorizationv1.ResourceAttributes{Namespace: one.Replica.Namespace, Verb: "update", Resource: "endpoints"}
		if one.Endpoints == nil {
			attributes.Group, attributes.Resource = discoveryv1.GroupName, "endpointslices"
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
		err := r.opts.Writer.AuthorizationV1().RESTClient().Post().Resource("selfsubjectaccessreviews").MaxRetries(0).Body(review).Do(ctx).Into(review)
		if err == nil && !review.Status.Allowed {
			return unread
		}
		return err
	})
}

// askObjects asks about objects of ours in up to n namespaces. Only that each is denied is
// an error: anything else is the affair of an object. Where none stands it asks for the
// version.
func (r *Reconciler) askObjects(ctx context.Context, n int, avoid string, ask func(*cache.Object) error) (err error) {
	kind := plan.KindEndpointSlice
	if r.opts.Source.Settings().WriteEndpoints {
		kind = plan.KindEndpoints
	}
	objects := r.cache.Samples(kind, n, avoid)
	for _, one := range objects {
		if err = ask(one); !kube.Denied(err) && (err == nil || write.Answered(err)) {
			return nil
		} else if !kube.Denied(err) {
			return err
		}
	}
	if len(objects) == 0 {
		return r.askVersion(ctx)
	}
	return err
}

// askVersion asks for what whoever could start may read.
func (r *Reconciler) askVersion(ctx context.Context) error {
	return r.opts.Writer.CoreV1().RESTClient().Get().AbsPath("/version").MaxRetries(0).Do(ctx).Error()
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
