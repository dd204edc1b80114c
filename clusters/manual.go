// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// manualWatches follow hand-written endpoints: those of Services without a selector.
// A member with none of these costs nothing here, for watching all Endpoints of
// a large cluster to find a few would be dearer than everything else. Nothing is
// taken from objects that the member's controllers derived.
type manualWatches struct {
	*intake
	// changed is sent to (without blocking) when it is to be looked what is needed.
	changed chan struct{}

	// Guarded by the member's lock.

	session *session
	wanted  map[syncer.Key]uint64 // as ManualSources has it; replaced, never changed
	watches map[scope]*manualWatch
	slices  *manualWatch // nil when none is needed
	// slicesNotFound is true when the API is to be asked whether it has slices: a list of
	// them was not found. slicesLacking is when it said that it has none; zero when it did not.
	slicesNotFound bool
	slicesLacking  time.Time
	// slicesAnswer is true when it is yet to be taken in, or again, that there are none.
	slicesAnswer bool
}

// manualWatch is a running loop.
type manualWatch struct {
	looper
	health *watchHealth
	cancel context.CancelFunc
	done   chan struct{}
}

// watchHealth remarks that a watch does not bring what happens. Only its loop calls it.
type watchHealth struct {
	remarks *remarks
	watch   string // of what
	failed  bool   // once, since it was open last
}

// changed takes in how the watch is. One failure is nothing: it is usually open again at once.
func (h *watchHealth) changed(s kube.State) {
	switch {
	case s.Phase == kube.Following && s.Err == nil:
		h.failed = false
		h.remarks.remark(h.watch, "")
	case s.Phase == kube.Waiting:
		if h.failed || errors.Is(s.Err, kube.ErrUnproven) {
			h.remarks.remark(h.watch, "brings nothing: Services without selector are read by lists, if at all")
		}
		h.failed = true
	}
}

// slicesGroup has slices, from this version of the API on.
const (
	slicesGroup              = "discovery.k8s.io/v1"
	slicesMajor, slicesMinor = 1, 21
)

// slicesRetry is the time between two looks at whether an API that said it has no
// slices has them by now.
const slicesRetry = 5 * time.Minute

// handWrittenSlices selects slices that no controller derived, at the server: so
// one watch for all Services brings next to nothing.
const handWrittenSlices = syncer.LabelServiceName + "," + syncer.LabelSliceManagedBy +
	" notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + "," + syncer.SliceManagedBy + ")"

func newManualWatches(in *intake) *manualWatches {
	return &manualWatches{intake: in, changed: make(chan struct{}, 1), watches: map[scope]*manualWatch{}}
}

// run keeps the watches that are needed, until ctx ends.
func (w *manualWatches) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			w.stop(slices.Collect(maps.Values(w.watches))...)
			w.stop(w.slices)
			return
		case <-w.changed:
			w.askForSlices(ctx)
			w.reconcile(ctx)
		case <-w.slicesDue():
			w.each(func(looper) {})
		}
	}
}

// reconcile starts and stops watches. Only run calls it.
func (w *manualWatches) reconcile(ctx context.Context) {
	wanted := w.manualSources()
	keys := slices.SortedFunc(maps.Keys(wanted), syncer.Key.Compare)
	w.mu.Lock()
	before := w.wanted
	w.wanted = wanted
	w.mu.Unlock()
	fresh := slices.DeleteFunc(slices.Clone(keys), func(key syncer.Key) bool { return before[key] == wanted[key] })
	w.reconcileEndpoints(ctx, keys, fresh)
	w.reconcileSlices(ctx, keys, fresh)
}

func (w *manualWatches) reconcileEndpoints(ctx context.Context, keys, fresh []syncer.Key) {
	scopes := scopesOf(keys)
	var ended []*manualWatch
	w.mu.Lock()
	for s, watch := range w.watches {
		if !slices.Contains(scopes, s) {
			ended = append(ended, watch)
			delete(w.watches, s)
		}
	}
	w.mu.Unlock()
	w.stop(ended...)
	for _, s := range scopes {
		if watch := w.watches[s]; watch == nil {
			w.startEndpoints(ctx, s)
		} else if slices.ContainsFunc(fresh, s.covers) {
			watch.Relist() // what it saw of the new ones was not kept
		}
	}
}

func (w *manualWatches) reconcileSlices(ctx context.Context, keys, fresh []syncer.Key) {
	w.mu.Lock()
	watch := w.slices
	version := w.session.Version()
	none := !w.slicesLacking.IsZero() || version.Git != "" && !version.AtLeast(slicesMajor, slicesMinor)
	answer := none && w.slicesAnswer
	w.slicesAnswer = false
	w.mu.Unlock()
	needed := len(keys) > 0 && !none
	switch {
	case watch != nil && !needed:
		w.stop(watch)
		w.mu.Lock()
		w.slices = nil
		w.mu.Unlock()
	case watch == nil && needed:
		w.startSlices(ctx)
	case len(fresh) > 0 && needed:
		watch.Relist()
	}
	switch {
	case answer: // for all: what is known of slices may be lost by it
		w.step(evidence.Listed[store.Slice]{Services: keys}, time.Now())
	case none && len(fresh) > 0:
		w.step(evidence.Listed[store.Slice]{Services: fresh}, time.Now())
	}
}

func (w *manualWatches) startEndpoints(ctx context.Context, s scope) {
	opts := metav1.ListOptions{}
	if s.name != "" {
		opts.FieldSelector = "metadata.name=" + s.name
	}
	r := kube.Endpoints
	r.Namespace = s.namespace
	health := &watchHealth{remarks: w.remarks, watch: strings.TrimRight("watch of endpoints "+s.namespace+"/"+s.name, "/")}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches[s] = start(ctx, health, watch(w.intake, w.session.ListWatcher(r), kube.Config[store.Versioned[store.Endpoints]]{
		Kind: r.Resource, Convert: convertWith(w.decoder.Endpoints), Key: endpointsKey, Options: opts,
		Handler: handler[store.Endpoints]{
			intake: w.intake, kind: evidence.Endpoints,
			services: func() []syncer.Key { return w.wantedIn(s) },
			changed: func(state kube.State) {
				health.changed(state)
				if state.Phase == kube.Forbidden {
					w.remarks.remark(kube.Endpoints.Resource, notFollowed)
				}
			},
		},
	}))
}

func (w *manualWatches) startSlices(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	health := &watchHealth{remarks: w.remarks, watch: "watch of endpointslices"}
	w.slices = start(ctx, health, watch(w.intake, w.session.ListWatcher(kube.EndpointSlices), kube.Config[store.Versioned[store.Slice]]{
		Kind: kube.EndpointSlices.Resource, Convert: convertWith(w.decoder.Slice), Key: sliceKey,
		Options: metav1.ListOptions{LabelSelector: handWrittenSlices},
		Handler: handler[store.Slice]{
			intake: w.intake, kind: evidence.Slices,
			changed: func(state kube.State) {
				health.changed(state)
				w.slicesChanged(state)
			},
			services: func() []syncer.Key { return w.wantedIn(scope{}) },
		},
	}))
}

func endpointsKey(v *store.Versioned[store.Endpoints]) syncer.Key { return v.Object.Key }
func sliceKey(v *store.Versioned[store.Slice]) syncer.Key         { return v.Object.Key }

// start runs a loop; stop waits for it.
func start(ctx context.Context, health *watchHealth, loop looper) *manualWatch {
	ctx, cancel := context.WithCancel(ctx)
	watch := &manualWatch{looper: loop, health: health, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(watch.done)
		loop.Run(ctx)
	}()
	return watch
}

// stop ends watches and waits for them. nil is none.
func (w *manualWatches) stop(watches ...*manualWatch) {
	for _, watch := range watches {
		if watch != nil {
			watch.cancel()
		}
	}
	for _, watch := range watches {
		if watch != nil {
			<-watch.done
			w.remarks.forget(watch.health.watch)
		}
	}
}

// exchange goes over to another session.
func (w *manualWatches) exchange(to *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session, w.slicesNotFound, w.slicesLacking = to, false, time.Time{}
	for s, watch := range w.watches {
		r := kube.Endpoints
		r.Namespace = s.namespace
		watch.SetListWatcher(to.ListWatcher(r))
	}
	if w.slices != nil {
		w.slices.SetListWatcher(to.ListWatcher(kube.EndpointSlices))
	}
	signal(w.changed)
}

// each calls what every loop has. Whoever asks for anything anew asks for slices
// as well, though the API said that it has none: it may have been a front that erred.
func (w *manualWatches) each(call func(looper)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.watches {
		call(watch)
	}
	if w.slices != nil {
		call(w.slices)
		return
	}
	w.slicesLacking, w.slicesAnswer = time.Time{}, true
	signal(w.changed)
}

// wantedIn returns the Services to follow in a scope, sorted.
func (w *manualWatches) wantedIn(s scope) (services []syncer.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for service := range w.wanted {
		if s.covers(service) {
			services = append(services, service)
		}
	}
	slices.SortFunc(services, syncer.Key.Compare)
	return services
}

// notFollowed is remarked where the right to read is missing.
const notFollowed = "may not be read: Services without selector stay as they are"

// slicesChanged notes that slices may not be read, or that the API has none.
func (w *manualWatches) slicesChanged(s kube.State) {
	switch {
	case s.Phase == kube.Forbidden:
		w.remarks.remark(kube.EndpointSlices.Resource, notFollowed)
	case s.Phase == kube.Waiting && apierrors.IsNotFound(s.Err):
		w.notFoundSlices()
	}
}

// notFoundSlices notes that a list of slices was not found.
func (w *manualWatches) notFoundSlices() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slicesNotFound = true
	signal(w.changed)
}

// askForSlices asks the API whether it has EndpointSlices, where a list of them was not
// found: what stands before it may have said so. Unless the API itself says that it has
// none, that is an error like any other.
func (w *manualWatches) askForSlices(ctx context.Context) {
	w.mu.Lock()
	notFound, s := w.slicesNotFound, w.session
	w.slicesNotFound = false
	if notFound = notFound && s != nil; notFound {
		s.Hold()
	}
	w.mu.Unlock()
	if !notFound {
		return
	}
	defer s.Release()
	offers, err := s.Offers(ctx, slicesGroup)
	if err != nil {
		w.log.Debug("cluster does not say whether it has slices", "error", err)
	}
	if err != nil || offers {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == s {
		w.slicesLacking, w.slicesAnswer = time.Now(), true
	}
}

// lacksSlices reports whether the API said that it has no slices.
func (w *manualWatches) lacksSlices() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return !w.slicesLacking.IsZero()
}

// slicesDue is when to ask again for slices that the API is said to lack.
func (w *manualWatches) slicesDue() <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slicesLacking.IsZero() {
		return nil
	}
	return time.After(time.Until(w.slicesLacking.Add(slicesRetry)))
}
