// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what the members' controllers write

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/listwatch"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// nativeObserver follows a member's own Endpoints and holds them against what
// the store computes, where the configuration asks for it (observeNative). It
// only looks: nothing that is replicated depends on it.
type nativeObserver struct {
	m *Member

	// changed is sent to (without blocking) when it is to be turned on or off, or
	// when the link is another one. touched likewise, when dirty has grown.
	changed, touched chan struct{}

	mu      sync.Mutex
	on      bool
	link    *link
	loop    *listwatch.Loop[theirs] // nil while off
	tracker *native.Tracker         // nil while off
	// dirty are the Services whose computed endpoints may differ from what the
	// tracker was told, with the arrival of the oldest event that touched each.
	dirty map[store.Dirty]time.Time
}

// theirs is one Endpoints object of the member, as far as it is compared.
type theirs struct {
	key       syncer.Key
	addresses native.Addresses
}

func newNativeObserver(m *Member) *nativeObserver {
	return &nativeObserver{m: m, changed: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
}

// configure turns it on or off.
func (n *nativeObserver) configure(on bool) {
	n.mu.Lock()
	n.on = on
	n.mu.Unlock()
	signal(n.changed)
}

// exchange goes over to another link.
func (n *nativeObserver) exchange(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = l
	if n.loop != nil {
		n.loop.SetSource(l.source(resourceEndpoints))
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run observes whenever it is turned on, until ctx ends.
func (n *nativeObserver) run(ctx context.Context) {
	for {
		n.mu.Lock()
		on := n.on && n.link != nil
		n.mu.Unlock()
		if on {
			n.observe(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
		}
	}
}

// observe follows until it is turned off or ctx ends.
func (n *nativeObserver) observe(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.mu.Lock()
	n.tracker, n.dirty = native.NewTracker(), map[store.Dirty]time.Time{}
	n.loop = listwatch.New(listwatch.Config[theirs]{
		Kind: resourceEndpoints.Resource, Convert: n.convert, Key: func(t *theirs) syncer.Key { return t.key },
		Handler: nativeHandler{n}, MaxObjects: n.m.protect.maxObjects, Observer: n.m.feed, Logger: n.m.log,
	}, n.link.source(resourceEndpoints))
	loop := n.loop
	n.mu.Unlock()
	n.touchAll(time.Now())

	var running sync.WaitGroup
	running.Go(func() { loop.Run(ctx) })
	running.Go(func() { n.compute(ctx) })
	for stays := true; stays; {
		select {
		case <-ctx.Done():
			stays = false
		case <-n.changed:
			n.mu.Lock()
			stays = n.on
			n.mu.Unlock()
		}
	}
	cancel()
	running.Wait()
	n.mu.Lock()
	n.loop, n.tracker, n.dirty = nil, nil, nil
	on := n.on
	n.mu.Unlock()
	if on {
		signal(n.changed) // turned on again meanwhile
	}
}

func (n *nativeObserver) convert(obj runtime.Object) (theirs, bool) {
	endpoints, ok := obj.(*corev1.Endpoints)
	if !ok || endpoints == nil {
		return theirs{}, false
	}
	v := n.m.decoder.Endpoints(endpoints)
	return theirs{key: v.Object.Key, addresses: native.Of(v.Object.Subsets)}, true
}

// touch notes Services whose computed endpoints may have changed.
func (n *nativeObserver) touch(dirty []store.Dirty, at time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracker == nil {
		return
	}
	for _, d := range dirty {
		d.Effect = syncer.None // one entry a Service
		if _, known := n.dirty[d]; !known {
			n.dirty[d] = at
		}
	}
	signal(n.touched)
}

func (n *nativeObserver) touchAll(at time.Time) {
	var all []store.Dirty
	for _, replica := range n.m.store.Replicas() {
		for _, source := range n.m.store.Sources(replica) {
			all = append(all, store.Dirty{Replica: replica, Source: source})
		}
	}
	n.touch(all, at)
}

// compute tells the tracker what the store makes of touched Services.
func (n *nativeObserver) compute(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.touched:
		}
		n.mu.Lock()
		batch := n.dirty
		n.dirty = map[store.Dirty]time.Time{}
		n.mu.Unlock()
		for d, at := range batch {
			addresses, present := n.ours(d)
			n.mu.Lock()
			late, measured := n.tracker.Ours(d.Source, addresses, present, at)
			n.mu.Unlock()
			n.report(late, measured)
		}
	}
}

// ours is what the store computes for a Service. Hand-written endpoints are
// nobody's computation and are left out.
func (n *nativeObserver) ours(d store.Dirty) (addresses native.Addresses, present bool) {
	for _, c := range n.m.store.Peek(d.Replica) {
		if c.Source == d.Source && !c.Pending && c.Service != nil && c.Service.Selector != nil {
			subsets, _ := syncer.Truncate(syncer.Subsets(c.Endpoints, c.EndpointsFamily), syncer.EndpointsCapacity)
			return native.Of(subsets), true
		}
	}
	return nil, false
}

func (n *nativeObserver) report(late time.Duration, measured bool) {
	if measured && n.m.opts.NativeLag != nil {
		n.m.opts.NativeLag(n.m.name, late)
	}
}

// status lists the Services about which both sides have differed for longer than
// tolerance.
func (n *nativeObserver) status(now time.Time, tolerance time.Duration) Native {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracker == nil {
		return Native{}
	}
	return Native{Observed: true, Behind: n.tracker.Behind(now), Differing: n.tracker.Disagreements(now.Add(-tolerance))}
}

// nativeHandler takes in the member's own Endpoints.
type nativeHandler struct{ n *nativeObserver }

// Replaced implements listwatch.Handler. What a list shows has no time of its
// own, so nothing is measured by it.
func (h nativeHandler) Replaced(items []theirs, r listwatch.Replacement) {
	present := make(map[syncer.Key]bool, len(items))
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	for _, item := range items {
		present[item.key] = true
		h.n.tracker.Theirs(item.key, item.addresses, true, r.Finished)
	}
	for _, key := range h.n.tracker.TheirKeys() {
		if !present[key] {
			h.n.tracker.Theirs(key, nil, false, r.Finished)
		}
	}
}

// Upserted implements listwatch.Handler.
func (h nativeHandler) Upserted(item theirs, e listwatch.EventMeta) {
	h.tell(item.key, item.addresses, true, e)
}

// Deleted implements listwatch.Handler.
func (h nativeHandler) Deleted(item theirs, e listwatch.EventMeta) { h.tell(item.key, nil, false, e) }

func (h nativeHandler) tell(key syncer.Key, addresses native.Addresses, present bool, e listwatch.EventMeta) {
	h.n.m.feed.event(resourceEndpoints.Resource, e)
	h.n.mu.Lock()
	late, measured := h.n.tracker.Theirs(key, addresses, present, e.Arrival)
	h.n.mu.Unlock()
	h.n.report(late, measured)
}

// Contact implements listwatch.Handler.
func (h nativeHandler) Contact(at time.Time, bookmark bool) {
	h.n.m.feed.contact(resourceEndpoints.Resource, at, bookmark)
}

// Changed implements listwatch.Handler.
func (h nativeHandler) Changed(s listwatch.State) {
	switch s.Phase {
	case listwatch.Forbidden:
		h.n.m.health.remark("observeNative", "may not list Endpoints: the member's own controllers are not observed")
	case listwatch.Following:
		h.n.m.health.remark("observeNative", "")
	case listwatch.Listing, listwatch.Waiting:
	}
}
