// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// The deadlines of requests. That of whatever can delay a removal is short: what removes an
// address, and what is written to an object that has addresses.
const (
	addressDeadline = 5 * time.Second
	otherDeadline   = 30 * time.Second
)

// Deadline is how long the answer to an action may take.
func Deadline(a *plan.Action) time.Duration {
	if a.Lane() == plan.Removal || a.Kind == plan.KindEndpoints || a.Kind == plan.KindEndpointSlice {
		return addressDeadline
	}
	return otherDeadline
}

// Writer sends actions; nothing else in Tributary changes objects of replicas. It is safe for
// concurrent use.
//
// It uses the REST clients below the typed ones, which would wait out a server's Retry-After
// inside the call, with the place held.
type Writer struct {
	session  func(context.Context) (*kube.Session, error)
	instance string
	observe  func(kind, verb string, result metrics.WriteResult)
}

// New returns a Writer for an installation. session is called for each request, observe after it.
func New(session func(context.Context) (*kube.Session, error), instance string, observe func(kind, verb string, result metrics.WriteResult)) *Writer {
	return &Writer{session: session, instance: instance, observe: observe}
}

// Send sends one action, within a deadline of seconds. o is the object as it is known to be
// afterwards, or to be gone: as the answer shows it or, where that says that the action was
// compared with an outdated object, as a read shows it. It is nil where nothing is known.
// Meaning says what the error means.
func (w *Writer) Send(ctx context.Context, a plan.Action) (o *cache.Object, err error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline(&a))
	defer cancel()
	session, err := w.session(ctx)
	reached := err == nil
	if reached {
		o, err = w.send(ctx, session.Clientset(), &a)
	}
	result := Meaning(err)
	w.observe(a.Kind.String(), a.Verb.String(), result)
	if err == nil {
		return o, nil
	}
	if reached && Outdated(result) {
		current, unknown := session.Ask(ctx, cache.Kinds[a.Kind].Resource, syncer.Key{Namespace: a.Object().Namespace, Name: a.Name})
		o = cache.Decode(current, w.instance)
		if current == nil && unknown == nil {
			o = Gone(&a)
		}
	}
	return o, fmt.Errorf("%s %s in the ingress cluster: %w", a.Verb, a.Object(), err)
}

// send makes the request of an action.
func (w *Writer) send(ctx context.Context, client kubernetes.Interface, a *plan.Action) (*cache.Object, error) {
	through := client.CoreV1().RESTClient()
	if a.Kind == plan.KindEndpointSlice {
		through = client.DiscoveryV1().RESTClient()
	}
	var r *rest.Request
	switch a.Verb {
	case plan.Create:
		r = through.Post().Body(Render(a, w.instance))
	case plan.Update:
		r = through.Put().Name(a.Name).Body(Render(a, w.instance))
	default:
		r = through.Delete().Name(a.Name).Body(Deletion(a))
	}
	r = r.MaxRetries(0).Resource(cache.Kinds[a.Kind].Resource.Resource).NamespaceIfScoped(a.Replica.Namespace, a.Kind != plan.KindNamespace)
	answer, err := r.Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	return After(a, answer, w.instance), nil
}

// Deletion are the options of an action that deletes: the preconditions are what it was compared with.
func Deletion(a *plan.Action) *metav1.DeleteOptions {
	return &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID(a.UID)), ResourceVersion: new(a.ResourceVersion)}}
}

// After is an object as it is after an action by the answer to it. A deletion that was done at once
// is answered with a status, or with what a Service was.
func After(a *plan.Action, answer runtime.Object, instance string) *cache.Object {
	if o := cache.Decode(answer, instance); o != nil && (a.Verb != plan.Delete || o.Deleting) {
		return o
	}
	return Gone(a)
}

// Gone says that what the action was compared with does not exist any more; nil where that was
// nothing.
func Gone(a *plan.Action) *cache.Object {
	if a.UID == "" {
		return nil
	}
	return &cache.Object{Object: a.Object(), Replica: a.Replica, UID: a.UID, Gone: true}
}
