// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
)

// observer keeps the cache up to date with one list and watch for each kind, over
// all namespaces. Pods of the ingress cluster are none of our business.
type observer struct {
	client kubernetes.Interface
	cache  *cache.Cache
	kinds  []watched
	logger *slog.Logger
	// plainLists keeps lists from being asked for as streams.
	plainLists bool
	// synced closes when every kind was listed once.
	synced chan struct{}
	// back is sent to, without blocking, when a watch is up again that had failed.
	back chan struct{}
	// contact is when the ingress cluster was last heard of on the connection of the
	// watches, in Unix nanoseconds.
	contact atomic.Int64

	mu      sync.Mutex
	missing map[plan.Kind]bool
	// failing holds the last error of each watch that is down.
	failing map[plan.Kind]error
	// restart ends the running watches so that all begin with a list.
	restart context.CancelFunc
}

// watched is how one kind is listed, watched and converted.
type watched struct {
	kind    plan.Kind
	example runtime.Object
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
	convert func(any) *cache.Object
}

func newObserver(client kubernetes.Interface, v *cache.Cache, d cache.Decoder, slices, plainLists bool, logger *slog.Logger) *observer {
	o := &observer{
		client: client, cache: v, kinds: watchedKinds(client, d, slices), logger: logger, plainLists: plainLists,
		synced: make(chan struct{}), back: make(chan struct{}, 1), missing: map[plan.Kind]bool{}, failing: map[plan.Kind]error{},
	}
	for _, w := range o.kinds {
		o.missing[w.kind] = true
	}
	return o
}

func watchedKinds(client kubernetes.Interface, d cache.Decoder, slices bool) []watched {
	namespaces, services, endpoints := client.CoreV1().Namespaces(), client.CoreV1().Services(""), client.CoreV1().Endpoints("")
	kinds := []watched{
		watchedKind(plan.KindNamespace, &corev1.Namespace{}, namespaces.List, namespaces.Watch, d.Namespace),
		watchedKind(plan.KindService, &corev1.Service{}, services.List, services.Watch, d.Service),
		watchedKind(plan.KindEndpoints, &corev1.Endpoints{}, endpoints.List, endpoints.Watch, d.Endpoints),
	}
	if slices {
		all := client.DiscoveryV1().EndpointSlices("")
		kinds = append(kinds, watchedKind(plan.KindEndpointSlice, &discoveryv1.EndpointSlice{}, all.List, all.Watch, d.Slice))
	}
	return kinds
}

func watchedKind[T, L runtime.Object](
	kind plan.Kind, example T,
	list func(context.Context, metav1.ListOptions) (L, error),
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error),
	convert func(T) *cache.Object,
) watched {
	return watched{
		kind: kind, example: example, watch: watch,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		convert: func(obj any) *cache.Object {
			t, ok := obj.(T)
			if !ok { // the reflector promises the type; a server cannot break it
				return nil
			}
			return convert(t)
		},
	}
}

// run watches until ctx is done, and returns when all its goroutines have.
func (o *observer) run(ctx context.Context) {
	for ctx.Err() == nil {
		round, cancel := context.WithCancel(ctx)
		o.mu.Lock()
		o.restart = cancel
		o.mu.Unlock()
		o.runRound(round)
		cancel()
		if ctx.Err() == nil {
			o.cache.Distrust() // after the old watches have ended, before the new lists
		}
	}
}

func (o *observer) runRound(ctx context.Context) {
	// What matters is logged here, once; the reflector's own lines are for debugging.
	log := logr.FromSlogHandler(demoted{o.logger.Handler()})
	ctx = klog.NewContext(ctx, log)
	var group sync.WaitGroup
	for _, w := range o.kinds {
		reflector := toolscache.NewReflectorWithOptions(
			listWatch{&toolscache.ListWatch{ListWithContextFunc: o.noteList(w), WatchFuncWithContext: o.noteWatch(w)}, o.plainLists},
			w.example, &reflected{observer: o, watched: w},
			toolscache.ReflectorOptions{
				Name: "ingress", Logger: &log,
				// From a quarter of a second up to 5 s: the default of 30 s is an age
				// for whoever waits for a repair.
				Backoff: &wait.Backoff{Duration: 250 * time.Millisecond, Cap: 5 * time.Second, Steps: 20, Factor: 2, Jitter: 0.2},
			})
		group.Go(func() { reflector.RunWithContext(ctx) })
	}
	group.Wait()
}

// listWatch tells the reflector whether lists may be asked for as streams.
type listWatch struct {
	*toolscache.ListWatch
	plainLists bool
}

// IsWatchListSemanticsUnSupported is what the reflector asks; the name is
// client-go's.
func (l listWatch) IsWatchListSemanticsUnSupported() bool { return l.plainLists }

func (o *observer) noteList(w watched) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := w.list(ctx, options)
		if err == nil || answered(err) {
			o.heard(time.Now())
		}
		if err != nil {
			o.failed(ctx, w.kind, err)
		}
		return list, err
	}
}

// emptyWatch is what client-go returns, and no error, for a watch that got no answer
// because the connection was cut or time ran out: a stream that has already ended.
// Source: client-go, rest.Request.Watch.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

// errUnanswered stands for the error that client-go keeps to itself.
var errUnanswered = errors.New("the watch got no answer: the connection was cut, or time ran out")

// noteWatch wraps the watch call to learn whether the stream is up.
func (o *observer) noteWatch(w watched) func(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		o.cache.Watermarks(w.kind).Closed() // the one before has ended
		stream, err := w.watch(ctx, options)
		if err == nil && reflect.TypeOf(stream) == emptyWatch {
			o.failed(ctx, w.kind, errUnanswered)
			return stream, nil
		}
		if err == nil || answered(err) {
			o.heard(time.Now())
		}
		if err != nil {
			// An older server refuses to stream a list; the reflector then lists.
			if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) {
				o.failed(ctx, w.kind, err)
			}
			return nil, err
		}
		o.recovered(w.kind)
		return stream, nil
	}
}

// heard notes a contact at a moment.
func (o *observer) heard(at time.Time) { o.contact.Store(at.UnixNano()) }

// failed logs the first failure of a watch and keeps the last, unless it is we who
// ended it.
func (o *observer) failed(ctx context.Context, kind plan.Kind, err error) {
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	before := o.failing[kind]
	o.failing[kind] = err
	o.mu.Unlock()
	if before == nil {
		o.logger.Warn("watch of the ingress cluster failed, trying again", "kind", string(kind), "error", err)
	}
}

func (o *observer) recovered(kind plan.Kind) {
	o.mu.Lock()
	before := o.failing[kind]
	delete(o.failing, kind)
	o.mu.Unlock()
	if before == nil {
		return
	}
	o.logger.Info("watch of the ingress cluster is back", "kind", string(kind))
	select {
	case o.back <- struct{}{}:
	default:
	}
}

// trouble returns the last error of a watch that is down, nil if all are up.
func (o *observer) trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.kinds {
		if err := o.failing[w.kind]; err != nil {
			return err
		}
	}
	return nil
}

func (o *observer) listed(kind plan.Kind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.missing[kind] {
		return
	}
	delete(o.missing, kind)
	if len(o.missing) == 0 {
		close(o.synced)
	}
}

// relist starts all watches anew, with lists that win over what is known.
func (o *observer) relist() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.restart != nil {
		o.restart()
	}
}

// reflected is the store of one reflector: it keeps nothing itself.
type reflected struct {
	observer *observer
	watched
}

var (
	_ toolscache.TransformingStore      = (*reflected)(nil)
	_ toolscache.ResourceVersionUpdater = (*reflected)(nil)
)

// UpdateResourceVersion implements toolscache.ResourceVersionUpdater: it is called for
// bookmarks, too.
func (r *reflected) UpdateResourceVersion(rv string) {
	r.observer.heard(time.Now())
	r.observer.cache.Saw(r.kind, cache.Revision(rv))
}

// Transformer strips the objects of a streamed list as they come, before the
// reflector gathers them all.
func (r *reflected) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if m, ok := obj.(metav1.Object); ok {
			cache.StripManagedFields(m)
		}
		return obj, nil
	}
}

// Add implements toolscache.ReflectorStore.
func (r *reflected) Add(obj any) error { return r.Update(obj) }

// Update implements toolscache.ReflectorStore.
func (r *reflected) Update(obj any) error {
	at := time.Now()
	if f := r.convert(obj); f != nil {
		r.observer.cache.Upsert(f, at)
	}
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (r *reflected) Delete(obj any) error {
	at := time.Now()
	if f := r.convert(obj); f != nil {
		r.observer.cache.Gone(f.ID, f.Revision)
		r.observer.cache.Remove(f.ID, f.UID, at)
	}
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (r *reflected) Replace(objects []any, rv string) error {
	at := time.Now()
	list := make([]*cache.Object, 0, len(objects))
	for _, obj := range objects {
		if f := r.convert(obj); f != nil {
			list = append(list, f)
		}
	}
	regressed := r.observer.cache.Replace(r.kind, list, rv, at)
	r.observer.cache.Saw(r.kind, cache.Revision(rv))
	r.observer.listed(r.kind)
	if regressed {
		r.observer.logger.Error("the ingress cluster shows an object older than it was: its store was restored; reading everything again", "kind", string(r.kind))
		r.observer.relist()
	}
	return nil
}

// Resync implements toolscache.ReflectorStore; there is nothing to repeat.
func (r *reflected) Resync() error { return nil }
