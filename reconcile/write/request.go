// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package write

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// measured is what an answer tells of how busy the server is.
func measured(v answer) lanes.Outcome {
	switch v.result {
	case metrics.WriteOK:
		return lanes.Measured
	case metrics.WriteThrottled, metrics.WriteTimeout:
		return lanes.Congested
	}
	return lanes.Unmeasured
}

// send makes the request of an action; where it is dry, the server checks it and changes nothing.
func (w *Writer) send(ctx context.Context, replica syncer.Key, a *plan.Action, dry bool) (*cache.Object, error) {
	ctx, end := w.limited(ctx)
	defer end()
	id := objectID(replica, a)
	request := w.request(a.Verb, id)
	if dry {
		request.Param("dryRun", metav1.DryRunAll)
	}
	if a.Verb == plan.Delete {
		return nil, remove(ctx, request, a.Standing, dry)
	}
	former := &cache.Object{}
	var untracked []metav1.ManagedFieldsEntry
	if standing := w.cache.Lookup(id); standing != nil && a.Standing != nil {
		former = standing
		if standing.Tracked {
			// One empty entry tells the server to forget; it does not begin anew until
			// somebody applies. Keeping that record is a large part of what a PUT costs
			// it: without, both kinds are visible in 1.9 times the null relay's time, with
			// it in 2.3 (e2e/cmd/benchlatency).
			untracked = []metav1.ManagedFieldsEntry{{}}
		}
	}
	kept := former.Kept
	switch a.Kind {
	case plan.KindNamespace:
		if dry {
			return put(ctx, request, w.namespace(id.Name), &corev1.Namespace{}, w.decoder.Namespace)
		}
		return w.createNamespace(ctx, id)
	case plan.KindService:
		in := ServiceObject(id.Key, a.Service, a.Standing, kept, former.Spec())
		w.sign(&in.ObjectMeta, untracked)
		return put(ctx, request, in, &corev1.Service{}, w.decoder.Service)
	case plan.KindEndpoints:
		in := EndpointsObject(id.Key, a.Endpoints, a.Standing, kept)
		w.sign(&in.ObjectMeta, untracked)
		return put(ctx, request, in, &corev1.Endpoints{}, w.decoder.Endpoints)
	case plan.KindEndpointSlice:
		in := SliceObject(replica, w.cache.OwnerUID(replica, a.Standing), a.Slice, a.Standing, kept)
		w.sign(&in.ObjectMeta, untracked)
		return put(ctx, request, in, &discoveryv1.EndpointSlice{}, w.decoder.Slice)
	}
	return nil, fmt.Errorf("an action of unknown kind %q", a.Kind)
}

// requestSlack is for how much longer than its limit a request may take before it counts as
// stuck.
const requestSlack = 30 * time.Second

// limited is the context of one request. Whoever waits for it rests meanwhile.
func (w *Writer) limited(ctx context.Context) (limited context.Context, end func()) {
	beat := w.heartbeats.Start("a request to the ingress cluster", w.timeout+requestSlack)
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	return limited, func() { cancel(); beat.End() }
}

// sign says in an object which process writes it.
func (w *Writer) sign(m *metav1.ObjectMeta, fields []metav1.ManagedFieldsEntry) {
	m.ManagedFields, m.Annotations = fields, maps.Clone(m.Annotations) // plans share them
	metav1.SetMetaDataAnnotation(m, plan.AnnotationProcess, w.decoder.Process)
}

// createNamespace makes a namespace once for all replicas that ask for it: at a time, or
// before they know that it has been made. Whoever may write no longer does not wait for it.
func (w *Writer) createNamespace(ctx context.Context, id cache.ID) (*cache.Object, error) {
	making := w.namespaces.DoChan(id.Name, func() (any, error) {
		if standing := w.cache.Lookup(id); standing != nil && standing.Namespace == plan.NamespaceActive {
			return standing, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout) // others wait, too
		defer cancel()
		made, err := put(ctx, w.request(plan.Create, id), w.namespace(id.Name), &corev1.Namespace{}, w.decoder.Namespace)
		if err == nil {
			w.cache.Finish(id, cache.Outcome{Object: made})
		}
		return made, err
	})
	select {
	case made := <-making:
		if made.Err != nil {
			return nil, made.Err
		}
		return made.Val.(*cache.Object), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// objectID is what an action of a replica writes.
func objectID(replica syncer.Key, a *plan.Action) cache.ID {
	if a.Kind == plan.KindNamespace {
		return cache.NamespaceID(a.Name)
	}
	return cache.ID{Kind: a.Kind, Key: syncer.Key{Namespace: replica.Namespace, Name: a.Name}}
}

// namespace is one that is made for replicas.
func (w *Writer) namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		plan.LabelManagedBy: plan.ManagedBy, plan.LabelInstance: cmp.Or(w.decoder.Instance, plan.DefaultInstance),
	}}}
}

func remove(ctx context.Context, request *rest.Request, standing *plan.Meta, dry bool) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(types.UID(standing.UID)), ResourceVersion: new(standing.ResourceVersion),
	}}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return request.Body(&options).Do(ctx).Error()
}

// verify reads an object after an answer that left its state in doubt. cause is
// that answer; it comes back with ErrStale when the object is not what the plan was compared
// with, standing, be it that the write was done; else with ErrUnclear or errUnchanged.
func (w *Writer) verify(ctx context.Context, item lanes.Item, id cache.ID, standing *plan.Meta, v answer, cause error) (cache.Outcome, error) {
	slot, err := w.queue.Acquire(accepting(ctx), item)
	if err != nil {
		return cache.Outcome{}, fmt.Errorf("%w; reading it failed too: %w", cause, err)
	}
	defer slot.End(lanes.Unmeasured)
	ctx, end := w.limited(ctx)
	defer end()
	out := cache.Outcome{Before: w.cache.Lookup(id)}
	object, read := w.Read(ctx, id)
	switch {
	case read == nil:
		out.Object = object
	case apierrors.IsNotFound(read):
		out.Absent = true
	default:
		return cache.Outcome{}, fmt.Errorf("%w; reading it failed too: %w", cause, read)
	}
	verdict := ErrStale
	switch unchanged := out.Absent && standing == nil || object != nil && standing != nil && object.Version() == standing.ResourceVersion; {
	case unchanged && v.unclear:
		verdict = ErrUnclear
	case unchanged && standing != nil:
		verdict = errUnchanged
	}
	return out, fmt.Errorf("%w: %w", verdict, cause)
}

func (w *Writer) Read(ctx context.Context, id cache.ID) (*cache.Object, error) {
	switch id.Kind {
	case plan.KindNamespace:
		return readAs(ctx, w, id, &corev1.Namespace{}, w.decoder.Namespace)
	case plan.KindService:
		return readAs(ctx, w, id, &corev1.Service{}, w.decoder.Service)
	case plan.KindEndpoints:
		return readAs(ctx, w, id, &corev1.Endpoints{}, w.decoder.Endpoints)
	}
	return readAs(ctx, w, id, &discoveryv1.EndpointSlice{}, w.decoder.Slice)
}

func readAs[T runtime.Object](ctx context.Context, w *Writer, id cache.ID, into T, convert func(T) *cache.Object) (*cache.Object, error) {
	if err := w.get(ctx, id, into); err != nil {
		return nil, err
	}
	return convert(into), nil
}

// get reads with a quorum: no resourceVersion is given.
func (w *Writer) get(ctx context.Context, id cache.ID, into runtime.Object) error {
	return w.resource(w.client(id.Kind).Get(), id).Name(id.Name).Do(ctx).Into(into)
}

// put sends an object and converts the answer.
func put[T runtime.Object](ctx context.Context, r *rest.Request, in, out T, convert func(T) *cache.Object) (*cache.Object, error) {
	if err := r.Body(in).Do(ctx).Into(out); err != nil {
		return nil, err
	}
	return convert(out), nil
}

func (w *Writer) request(verb plan.Verb, id cache.ID) *rest.Request {
	client := w.client(id.Kind)
	switch verb {
	case plan.Create:
		return w.resource(client.Post(), id)
	case plan.Update:
		return w.resource(client.Put(), id).Name(id.Name)
	}
	return w.resource(client.Delete(), id).Name(id.Name)
}

func (w *Writer) client(kind plan.Kind) rest.Interface {
	if kind == plan.KindEndpointSlice {
		return w.discovery
	}
	return w.core
}

func (w *Writer) resource(r *rest.Request, id cache.ID) *rest.Request {
	r = r.MaxRetries(0)
	switch id.Kind {
	case plan.KindNamespace:
		return r.Resource("namespaces")
	case plan.KindService:
		r = r.Resource("services")
	case plan.KindEndpoints:
		r = r.Resource("endpoints")
	case plan.KindEndpointSlice:
		r = r.Resource("endpointslices")
	}
	return r.Namespace(id.Namespace)
}

// Check has the server check an update of an item's replica that is not made.
func (w *Writer) Check(ctx context.Context, item lanes.Item, a *plan.Action) error {
	slot, err := w.queue.Acquire(accepting(ctx), item)
	if err != nil {
		return err
	}
	err = w.DryRun(ctx, item.Key, a)
	slot.End(lanes.Unmeasured)
	if v := classify(err); v.verify && !v.unclear {
		_, err = w.verify(ctx, item, objectID(item.Key, a), a.Standing, v, err)
	}
	return err
}

// DryRun has the server check a write that is not made.
func (w *Writer) DryRun(ctx context.Context, replica syncer.Key, a *plan.Action) error {
	_, err := w.send(ctx, replica, a, true)
	return err
}

// acceptingKey is that of the context in which requests may be begun.
type acceptingKey struct{}

// WhileAccepting returns a context of requests, of which none is begun once accepting is
// done.
func WhileAccepting(writing, accepting context.Context) context.Context {
	return context.WithValue(writing, acceptingKey{}, accepting)
}

// accepting is done when nothing more is to be sent, while what was sent may end.
func accepting(writing context.Context) context.Context {
	if ctx, ok := writing.Value(acceptingKey{}).(context.Context); ok {
		return ctx
	}
	return writing
}
