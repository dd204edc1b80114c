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

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// writer carries out plans; nothing else in Tributary changes replicas. Every request
// has a time limit, every update and deletion the resourceVersion and UID of what the
// plan was compared with, and every answer goes into the cache before the plan's next
// stage.
//
// It uses the REST client below the typed one: the typed one waits out a
// server's Retry-After inside the call, up to ten times, with the worker held.
type writer struct {
	core, discovery rest.Interface
	queue           *lanes.Queue
	cache           *cache.Cache
	decoder         cache.Decoder
	recorder        Recorder
	// timeout is the limit of one request.
	timeout    time.Duration
	namespaces singleflight.Group
}

// maxParallel bounds the writes of one stage that are under way: a replica of
// thousands of endpoints has dozens of slices.
const maxParallel = 8

func newWriter(client kubernetes.Interface, queue *lanes.Queue, v *cache.Cache, d cache.Decoder, recorder Recorder, timeout time.Duration) *writer {
	return &writer{
		core: client.CoreV1().RESTClient(), discovery: client.DiscoveryV1().RESTClient(),
		queue: queue, cache: v, decoder: d, recorder: recorder, timeout: timeout,
	}
}

// receipt is what became of one action.
type receipt struct {
	kind   plan.Kind
	action *plan.Action
	// sent and acked bound the request on the monotonic clock.
	sent, acked time.Time
	// asked is false where nothing was sent.
	asked bool
	// made is the version that the write made; zero for a deletion, or when
	// nothing was changed.
	made metrics.Ref
	// version of the object that the answer showed.
	version string
	err     error
}

// execute carries out the plan for an item: the first half, then its stages, which are as
// urgent as what adds. Whatever is refused or fails, the others go on; only what needs it
// is left out. It ends early where the server does not answer, or asks for a pause; and
// when rest is done, which is for the second half alone: what waits then, and what a
// removal does not touch, is given up with errInterrupted. The receipts are in the order
// of the actions; err joins their errors.
func (w *writer) execute(ctx, rest context.Context, item lanes.Item, p *plan.Plan) (receipts []receipt, err error) {
	e := execution{writer: w, item: item, replica: p.Replica, made: map[plan.Object]string{}, failed: map[plan.Object]error{}}
	for i, stage := range p.Sequence() {
		if i > 0 && len(p.Removals) > 0 {
			e.item.Lane = max(item.Lane, lanes.Addition)
		}
		e.rest = rest
		if i == 0 && len(p.Removals) > 0 {
			e.rest = ctx
		}
		e.run(ctx, stage)
		if e.over {
			break
		}
	}
	return e.receipts, errors.Join(e.errs...)
}

// execution is one run of a plan.
type execution struct {
	*writer
	item     lanes.Item
	replica  syncer.Key
	rest     context.Context //nolint:containedctx // of the stage in hand
	receipts []receipt
	errs     []error
	// made are the versions of what has been updated: one object may come twice.
	made   map[plan.Object]string
	failed map[plan.Object]error
	// over is true when the server is away or has asked for a pause.
	over bool
}

// run carries out the actions of one stage side by side.
func (e *execution) run(ctx context.Context, stage []plan.Action) {
	todo := make([]*plan.Action, 0, len(stage))
	for i := range stage {
		if a := e.ready(&stage[i]); a != nil {
			todo = append(todo, a)
		}
	}
	done := make([][]receipt, len(todo))
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i := 1; i < len(todo); i++ {
		group.Go(func() error { done[i] = e.do(ctx, e.rest, e.item, e.replica, todo[i]); return nil })
	}
	if len(todo) > 0 { // the usual two cost one goroutine
		done[0] = e.do(ctx, e.rest, e.item, e.replica, todo[0])
	}
	_ = group.Wait() // each receipt has its own error
	for _, receipts := range done {
		e.receipts = append(e.receipts, receipts...)
		for i := range receipts {
			e.note(&receipts[i])
		}
	}
}

// ready returns the action with the version that the first half has made, or nil where
// what it needs has failed.
func (e *execution) ready(a *plan.Action) *plan.Action {
	lacks := slices.ContainsFunc(a.Needs, func(o plan.Object) bool { return e.failed[o] != nil })
	if err := e.failed[a.Object()]; lacks || err != nil && !refused(err) {
		e.failed[a.Object()] = cmp.Or(err, errNeeds)
		return nil
	}
	if version := e.made[a.Object()]; version != "" && a.Standing != nil {
		next, standing := *a, *a.Standing
		standing.ResourceVersion = version
		next.Standing = &standing
		return &next
	}
	return a
}

// errNeeds is why an action was left out.
var errNeeds = errors.New("what it needs has failed")

// errInterrupted is why an action was given up.
var errInterrupted = errors.New("a removal came first")

func (e *execution) note(r *receipt) {
	object := r.action.Object()
	if r.err == nil {
		if r.version != "" {
			e.made[object] = r.version
		}
		return
	}
	e.errs = append(e.errs, r.err)
	e.failed[object] = r.err
	e.over = e.over || !answered(r.err) || retryAfter(r.err) > 0
}

// do carries out one action and, where the server does not take it, the one that may
// take its place: an object that cannot be deleted can perhaps be emptied.
func (w *writer) do(ctx, rest context.Context, item lanes.Item, replica syncer.Key, a *plan.Action) []receipt {
	r := w.attempt(ctx, rest, item, replica, a)
	stands := refused(r.err) || forbidden(r.err) || a.Verb == plan.Delete && errors.Is(r.err, errUnclear)
	if a.Otherwise == nil || !stands {
		return []receipt{r}
	}
	return []receipt{r, w.attempt(ctx, rest, item, replica, a.Otherwise)}
}

// attempt makes one write when the item has a slot for it. The error, if any, is a *WriteError, and wraps ErrStale or
// errUnclear when the object has been looked at. When rest is done it waits no longer
// for a slot, nor for the answer to what no removal needs; who reads the object next
// learns what became of it.
func (w *writer) attempt(ctx, rest context.Context, item lanes.Item, replica syncer.Key, a *plan.Action) receipt {
	id := cache.ID{Kind: a.Kind, Key: syncer.Key{Namespace: replica.Namespace, Name: a.Name}}
	if a.Kind == plan.KindNamespace {
		id.Namespace = ""
	}
	// Several replicas may make one namespace at once, so it has no own writes.
	tracked := a.Kind != plan.KindNamespace
	r := receipt{kind: a.Kind, action: a, sent: time.Now()}
	slot, err := w.queue.Acquire(accepting(rest), item, requests(a))
	if err != nil {
		if rest.Err() != nil && ctx.Err() == nil {
			err = errInterrupted
		}
		r.err = &WriteError{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: err}
		return r
	}
	if tracked {
		w.cache.Begin(id)
	}
	r.sent, r.asked = time.Now(), true
	sending := rest
	if a.Verb == plan.Update && (a.Endpoints != nil || a.Slice != nil) {
		sending = ctx // a removal would have to wait for it, or to find out
	}
	result, err := w.send(sending, replica, id, a)
	r.acked = time.Now()
	if err != nil && sending.Err() != nil && ctx.Err() == nil {
		slot.End(lanes.Unmeasured)
		w.cache.Finish(id, cache.Outcome{})
		r.asked, r.err = false, &WriteError{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: errInterrupted}
		return r
	}
	v := judge(err)
	slot.End(measured(v))
	w.recorder.Write(string(a.Kind), string(a.Verb), v.result, r.acked.Sub(r.sent))
	out := cache.Outcome{}
	switch {
	case err == nil && a.Verb == plan.Delete:
		out.Gone = &cache.Object{ID: id, Replica: replica, Claim: plan.ClaimRecorded, UID: a.Standing.UID, Revision: cache.Revision(a.Standing.ResourceVersion)}
	case err == nil:
		out.Object = result
		r.version = result.Version()
		out.Wrote = tracked && (a.Standing == nil || result.Revision != cache.Revision(a.Standing.ResourceVersion))
		if out.Wrote {
			r.made = cache.RefOf(result)
		}
	case v.look:
		out, err = w.look(ctx, item, id, v, err)
	case namespaceTerminating(err):
		err = fmt.Errorf("%w: %w", ErrNamespaceTerminating, err)
	}
	w.cache.Finish(id, out)
	if err != nil {
		r.err = &WriteError{Verb: a.Verb, Kind: a.Kind, Object: id.String(), Err: err}
	}
	return r
}

// requests is how many requests an action takes: an update of a Service reads it first.
func requests(a *plan.Action) int {
	if a.Kind == plan.KindService && a.Verb == plan.Update {
		return 2
	}
	return 1
}

// measured is what an answer tells of how busy the server is.
func measured(v verdict) lanes.Outcome {
	switch v.result {
	case metrics.WriteOK:
		return lanes.Measured
	case metrics.WriteThrottled, metrics.WriteTimeout:
		return lanes.Congested
	}
	return lanes.Unmeasured
}

func (w *writer) send(ctx context.Context, replica syncer.Key, id cache.ID, a *plan.Action) (*cache.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if a.Verb == plan.Delete {
		return nil, w.delete(ctx, id, a.Standing)
	}
	var kept *cache.Extra
	var untracked []metav1.ManagedFieldsEntry
	if standing := w.cache.Lookup(id); standing != nil && a.Standing != nil {
		kept = standing.Kept
		if standing.Tracked {
			// One empty entry tells the server to forget; it does not begin anew until
			// somebody applies. Keeping that record is a large part of what a PUT costs
			// it: without, both kinds are visible in 1.9 times the null relay's time, with
			// it in 2.3 (e2e/cmd/benchlatency).
			untracked = []metav1.ManagedFieldsEntry{{}}
		}
	}
	switch a.Kind {
	case plan.KindNamespace:
		return w.createNamespace(ctx, id)
	case plan.KindService:
		in, err := w.serviceToWrite(ctx, id, a)
		if err != nil {
			return nil, err
		}
		return put(ctx, w.request(a.Verb, id), in, &corev1.Service{}, w.decoder.Service)
	case plan.KindEndpoints:
		in := endpointsObject(id.Key, a.Endpoints, a.Standing, kept)
		in.ManagedFields = untracked
		return put(ctx, w.request(a.Verb, id), in, &corev1.Endpoints{}, w.decoder.Endpoints)
	case plan.KindEndpointSlice:
		in := sliceObject(replica, w.cache.OwnerUID(replica, a.Standing), a.Slice, a.Standing, kept)
		in.ManagedFields = untracked
		return put(ctx, w.request(a.Verb, id), in, &discoveryv1.EndpointSlice{}, w.decoder.Slice)
	}
	return nil, fmt.Errorf("an action of unknown kind %q", a.Kind)
}

// createNamespace makes a namespace once for all replicas that ask for it at a time.
func (w *writer) createNamespace(ctx context.Context, id cache.ID) (*cache.Object, error) {
	made, err, _ := w.namespaces.Do(id.Name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.timeout) // others wait, too
		defer cancel()
		in := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: id.Name, Labels: map[string]string{
			plan.LabelManagedBy: plan.ManagedBy, plan.LabelInstance: cmp.Or(w.decoder.Instance, plan.DefaultInstance),
		}}}
		return put(ctx, w.request(plan.Create, id), in, &corev1.Namespace{}, w.decoder.Namespace)
	})
	if err != nil {
		return nil, err
	}
	return made.(*cache.Object), nil
}

// serviceToWrite builds a Service from scratch, or for an update from the whole
// standing object: a Service has fields that a PUT must repeat and that nobody
// but the server knows.
func (w *writer) serviceToWrite(ctx context.Context, id cache.ID, a *plan.Action) (*corev1.Service, error) {
	if a.Standing == nil {
		return serviceObject(id.Key, a.Service), nil
	}
	svc := &corev1.Service{}
	if err := w.get(ctx, id, svc); err != nil {
		return nil, err
	}
	if svc.ResourceVersion != a.Standing.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("services"), id.Name, errors.New("the object has been modified since the plan was made"))
	}
	applyService(svc, a.Service)
	return svc, nil
}

func (w *writer) delete(ctx context.Context, id cache.ID, standing *plan.Meta) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		UID: new(types.UID(standing.UID)), ResourceVersion: new(standing.ResourceVersion),
	}}
	return w.request(plan.Delete, id).Body(&options).Do(ctx).Error()
}

// look reads an object after an answer that left its state in doubt. cause is
// that answer; it comes back with ErrStale or errUnclear when the read cleared the
// doubt.
func (w *writer) look(ctx context.Context, item lanes.Item, id cache.ID, v verdict, cause error) (cache.Outcome, error) {
	slot, err := w.queue.Acquire(accepting(ctx), item, 1)
	if err != nil {
		return cache.Outcome{}, fmt.Errorf("%w; reading it failed too: %w", cause, err)
	}
	defer slot.End(lanes.Unmeasured)
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	out := cache.Outcome{Before: w.cache.Lookup(id)}
	object, read := w.read(ctx, id)
	switch {
	case read == nil:
		out.Object = object
	case apierrors.IsNotFound(read):
		out.Absent = true
	default:
		return cache.Outcome{}, fmt.Errorf("%w; reading it failed too: %w", cause, read)
	}
	if v.unclear {
		return out, fmt.Errorf("%w: %w", errUnclear, cause)
	}
	return out, fmt.Errorf("%w: %w", ErrStale, cause)
}

func (w *writer) read(ctx context.Context, id cache.ID) (*cache.Object, error) {
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

func readAs[T runtime.Object](ctx context.Context, w *writer, id cache.ID, into T, convert func(T) *cache.Object) (*cache.Object, error) {
	if err := w.get(ctx, id, into); err != nil {
		return nil, err
	}
	return convert(into), nil
}

// get reads with a quorum: no resourceVersion is given.
func (w *writer) get(ctx context.Context, id cache.ID, into runtime.Object) error {
	return w.resource(w.client(id.Kind).Get(), id).Name(id.Name).Do(ctx).Into(into)
}

// put sends an object and converts the answer.
func put[T runtime.Object](ctx context.Context, r *rest.Request, in, out T, convert func(T) *cache.Object) (*cache.Object, error) {
	if err := r.Body(in).Do(ctx).Into(out); err != nil {
		return nil, err
	}
	return convert(out), nil
}

func (w *writer) request(verb plan.Verb, id cache.ID) *rest.Request {
	client := w.client(id.Kind)
	switch verb {
	case plan.Create:
		return w.resource(client.Post(), id)
	case plan.Update:
		return w.resource(client.Put(), id).Name(id.Name)
	}
	return w.resource(client.Delete(), id).Name(id.Name)
}

func (w *writer) client(kind plan.Kind) rest.Interface {
	if kind == plan.KindEndpointSlice {
		return w.discovery
	}
	return w.core
}

func (w *writer) resource(r *rest.Request, id cache.ID) *rest.Request {
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
