// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are half of what Tributary writes

package reconcile

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// observer keeps the cache up to date with a watch of each kind, over all namespaces or,
// where it is confined, in each that it may read. Pods of the ingress cluster are none of
// our business.
type observer struct {
	session *kube.Session
	cache   *cache.Cache
	watches []*watch
	only    []string
	logger  *slog.Logger
	// synced closes when everything was listed once, but for namespaces that are named and
	// refused. readable is told when such a one was listed.
	synced   chan struct{}
	readable func(namespace string)
	// contact is when the ingress cluster was last heard of on the connection of the
	// watches, in Unix nanoseconds.
	contact atomic.Int64

	mu sync.Mutex
	// unproven is why the cluster is not taken for the one it was.
	unproven error
}

// believedRefusals is how many refusals in a row are believed: an API server that has just
// started denies what it grants a moment later.
const believedRefusals = 3

// watch follows what is in its scope. It is the handler of its loop.
type watch struct {
	*observer
	cache.Scope
	loop *kube.Loop[*cache.Object]
	// Guarded by the observer's mu: listed is set once it has listed, open while a stream is
	// or has just ended, err is why it is down, and refused how often in a row for want of a
	// right in a namespace that is named.
	listed, open bool
	err          error
	refused      int
}

var _ kube.Handler[*cache.Object] = (*watch)(nil)

func newObserver(session *kube.Session, c *cache.Cache, d cache.Decoder, hasSlices bool, only []string, readable func(namespace string), logger *slog.Logger) *observer {
	o := &observer{session: session, cache: c, only: only, readable: readable, logger: logger, synced: make(chan struct{})}
	o.follow(plan.KindNamespace, "", kube.Namespaces, convertWith(d.Namespace))
	namespaces := only
	if only == nil {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		o.follow(plan.KindService, namespace, kube.Services, convertWith(d.Service))
		o.follow(plan.KindEndpoints, namespace, kube.Endpoints, convertWith(d.Endpoints))
		if hasSlices {
			o.follow(plan.KindEndpointSlice, namespace, kube.EndpointSlices, convertWith(d.Slice))
		}
	}
	c.Observe(o.answered)
	return o
}

// follow adds a watch.
func (o *observer) follow(kind plan.Kind, namespace string, resource kube.Resource, convert func(runtime.Object) (*cache.Object, bool)) {
	w := &watch{observer: o, Scope: cache.Scope{Kind: kind, Namespace: namespace}}
	resource.Namespace = namespace
	w.loop = kube.New(kube.Config[*cache.Object]{
		Kind: string(kind), Convert: convert, Handler: w, Logger: o.logger,
		Key:     func(f **cache.Object) syncer.Key { return (*f).ID.Key },
		Version: func(f **cache.Object) uint64 { return (*f).Revision },
	}, o.session.ListWatcher(resource))
	o.watches = append(o.watches, w)
}

func convertWith[T runtime.Object](decode func(T) *cache.Object) func(runtime.Object) (*cache.Object, bool) {
	return func(object runtime.Object) (*cache.Object, bool) {
		t, ok := object.(T)
		if !ok {
			return nil, false
		}
		return decode(t), true
	}
}

// answered keeps what the answer to a write showed, to learn whether the store goes back
// in time. A deletion is later than the last state of its object.
func (o *observer) answered(f *cache.Object, gone bool) {
	mark := kube.Watermark{Key: f.ID.Key, Revision: f.Revision, Gone: gone}
	if gone {
		mark.Revision++
	}
	for _, w := range o.watches {
		if w.Covers(f.ID) {
			w.loop.Answered(mark)
		}
	}
}

// run watches until ctx is done, and returns when all its goroutines have.
func (o *observer) run(ctx context.Context, heartbeats *metrics.Heartbeats) {
	resources := map[plan.Kind]kube.Resource{plan.KindService: kube.Services, plan.KindEndpoints: kube.Endpoints, plan.KindEndpointSlice: kube.EndpointSlices}
	prober := kube.Prober{
		Session:   func() *kube.Session { o.session.Hold(); return o.session },
		Probed:    o.probed,
		Recovered: func() { o.each((*kube.Loop[*cache.Object]).RetryNow) },
		WentBack:  o.wentBack,
		Heartbeat: heartbeats.Start("what asks the ingress cluster", kube.ProbeBound),
	}
	var group sync.WaitGroup
	for _, w := range o.watches {
		if resource, ok := resources[w.Kind]; ok {
			resource.Namespace = w.Namespace
			prober.Followed = append(prober.Followed, kube.Followed{Resource: resource, Loop: w.loop})
		}
		group.Go(func() { w.loop.Run(ctx) })
	}
	group.Go(func() { prober.Run(ctx) })
	group.Wait()
}

func (o *observer) each(call func(*kube.Loop[*cache.Object])) {
	for _, w := range o.watches {
		call(w.loop)
	}
}

// wentBack starts anew with a store that was restored.
func (o *observer) wentBack(err error) {
	o.logger.Error("the ingress cluster went back in time: its store was restored; reading everything again", "error", err)
	o.each((*kube.Loop[*cache.Object]).WentBack)
}

// probed takes in whether the cluster answers as itself.
func (o *observer) probed(err error) {
	if err == nil {
		o.noteContact(time.Now())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unproven = nil
	if errors.Is(err, kube.ErrOtherCluster) {
		o.unproven = err
	}
}

// noteContact notes one at a moment.
func (o *observer) noteContact(at time.Time) { o.contact.Store(at.UnixNano()) }

// trouble returns the last error of a watch that is down, nil if all are up. A namespace
// that is refused concerns itself alone, where another is not.
func (o *observer) trouble() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err, refused, others := o.unproven, error(nil), false
	for _, w := range o.watches {
		if w.lockedRefused() {
			refused = w.err
			continue
		}
		err = cmp.Or(err, w.err)
		others = others || w.Namespace != ""
	}
	if others || o.only == nil {
		return err
	}
	return cmp.Or(err, refused)
}

// unread reports whether what stands in a namespace that is named was not read yet.
func (o *observer) unread(namespace string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.watches, func(w *watch) bool {
		return w.Namespace == namespace && !w.listed
	})
}

func (w *watch) lockedRefused() bool { return w.refused >= believedRefusals }

// Replaced implements kube.Handler.
func (w *watch) Replaced(list []*cache.Object, r kube.Replacement) {
	w.noteContact(r.Finished)
	older := w.cache.Replace(w.Scope, list, cache.Revision(r.ResourceVersion), r.Older, r.Finished)
	if w.noteListed() {
		w.readable(w.Namespace)
	}
	if older && r.Reason != kube.Rewound { // the others may not have noticed
		w.wentBack(kube.ErrWentBack)
	}
}

// Upserted implements kube.Handler.
func (w *watch) Upserted(f *cache.Object, e kube.EventMeta) {
	w.noteContact(e.Arrival)
	w.cache.Upsert(f, e.Arrival)
}

// Deleted implements kube.Handler.
func (w *watch) Deleted(f *cache.Object, e kube.EventMeta) {
	w.noteContact(e.Arrival)
	w.cache.Remove(f.ID, f.UID, e.Arrival)
}

// Contact implements kube.Handler.
func (w *watch) Contact(at time.Time, _ bool) { w.noteContact(at) }

// Changed implements kube.Handler: it says once that a watch is down, and that it is back.
// One whose stream ended is down when no other could be opened.
func (w *watch) Changed(s kube.State) {
	if s.Phase == kube.Forbidden && w.Kind == plan.KindNamespace && w.only != nil {
		w.assume()
		return
	}
	if s.Phase == kube.Listing || s.Phase == kube.Following && s.Err != nil {
		return
	}
	w.mu.Lock()
	before, ended := w.err, w.open && s.Err != nil
	if w.open = s.Err == nil; !ended {
		w.err = s.Err
	}
	w.lockedNoteRefusal(s.Err)
	w.mu.Unlock()
	if ended {
		return
	}
	switch {
	case before == nil && s.Err != nil:
		w.logger.Warn("watch of the ingress cluster failed, trying again", "kind", string(w.Kind), "namespace", w.Namespace, "error", s.Err)
	case before != nil && s.Err == nil:
		w.logger.Info("watch of the ingress cluster is back", "kind", string(w.Kind), "namespace", w.Namespace)
	}
}

// assume takes the namespaces that are named for standing: a Role in each says that they
// are there, and gives no right to list them.
func (w *watch) assume() {
	w.mu.Lock()
	listed := w.listed
	w.mu.Unlock()
	if listed {
		return
	}
	var list []*cache.Object
	for _, name := range w.only {
		list = append(list, &cache.Object{ID: cache.NamespaceID(name), Namespace: plan.NamespaceActive})
	}
	w.cache.Replace(w.Scope, list, 0, false, time.Now())
	w.noteListed()
}

// lockedNoteRefusal counts refusals for want of a right in a namespace that is named. Its
// Role may have gone with it: the others wait for it no longer.
func (w *watch) lockedNoteRefusal(err error) {
	if w.Namespace == "" || !apierrors.IsForbidden(err) {
		w.refused = 0
		return
	}
	if w.refused++; w.refused == believedRefusals {
		w.logger.Error("a namespace of the ingress cluster may not be read; nothing is written there", "kind", string(w.Kind), "namespace", w.Namespace, "error", err)
	}
	w.lockedSettle()
}

// noteListed notes a list, and reports whether it is a first one that was not waited for.
func (w *watch) noteListed() (late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late = !w.listed && w.isSynced()
	w.listed, w.refused = true, 0
	w.lockedSettle()
	return late
}

func (o *observer) isSynced() bool {
	select {
	case <-o.synced:
		return true
	default:
		return false
	}
}

// lockedSettle closes synced when nothing is to be waited for. Where all is refused it is
// no namespace that is gone.
func (o *observer) lockedSettle() {
	listed := false
	for _, w := range o.watches {
		if !w.listed && !w.lockedRefused() {
			return
		}
		listed = listed || w.listed && (w.Namespace != "" || o.only == nil)
	}
	if listed && !o.isSynced() {
		close(o.synced)
	}
}
