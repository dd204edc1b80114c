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

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// nativeObserver follows a member's own Endpoints and holds them against what
// the store computes, where the configuration asks for it (observeNative). It
// only looks: nothing that is replicated depends on it.
type nativeObserver struct {
	*intake
	opts *Options

	// changed is sent to (without blocking) when it is to be turned on or off, or
	// when the session is another one. touched likewise, when dirty has grown.
	changed, touched chan struct{}

	// Guarded by the member's lock.

	on      bool
	session *session
	loop    *kube.Loop[theirs] // nil while off
	tracker *native.Tracker    // nil while off
	// dirty are the Services whose computed endpoints may differ from what the
	// tracker was told, with the arrival of the oldest event that touched each; zero
	// where none did and it is only looked again.
	dirty map[syncer.Key]time.Time
	// aside are Services that are not compared for now: what there is of them is not
	// what the member shows.
	aside map[syncer.Key]bool
	// live is true while the member is followed, following while its Endpoints are.
	// Nothing is said about its controllers unless both are: sees.
	live, following, sees bool
}

// observeNativeRemark is under what the remarks about the observation stand.
const observeNativeRemark = "observeNative"

// theirs is one Endpoints object of the member, as far as it is compared.
type theirs struct {
	key       syncer.Key
	addresses native.Addresses
}

func newNativeObserver(in *intake, opts *Options) *nativeObserver {
	return &nativeObserver{intake: in, opts: opts, changed: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
}

// configure turns it on or off.
func (n *nativeObserver) configure(on bool) {
	n.mu.Lock()
	n.on = on
	n.mu.Unlock()
	signal(n.changed)
}

// exchange goes over to another session.
func (n *nativeObserver) exchange(s *session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.session = s
	if n.loop != nil {
		n.loop.SetListWatcher(s.ListWatcher(kube.Endpoints))
	}
}

// each calls what every loop has, while there is one.
func (n *nativeObserver) each(call func(looper)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.loop != nil {
		call(n.loop)
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
		on := n.on && n.session != nil
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
	loop := n.begin()
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
	n.end()
}

func (n *nativeObserver) begin() *kube.Loop[theirs] {
	n.mu.Lock()
	n.tracker, n.dirty, n.aside = native.NewTracker(), map[syncer.Key]time.Time{}, map[syncer.Key]bool{}
	n.loop = watch(n.intake, n.session.ListWatcher(kube.Endpoints), kube.Config[theirs]{
		Kind: kube.Endpoints.Resource, Convert: n.convert, Key: func(t *theirs) syncer.Key { return t.key },
		Handler: nativeHandler{n},
	})
	loop := n.loop
	n.mu.Unlock()
	n.see(n.view.Load().State == evidence.Live)
	n.lookAtAll()
	return loop
}

// end leaves nothing of an observation behind.
func (n *nativeObserver) end() {
	n.mu.Lock()
	n.loop, n.tracker, n.dirty, n.aside = nil, nil, nil, nil
	n.following, n.sees = false, false
	on := n.on
	n.mu.Unlock()
	n.remarks.forget(observeNativeRemark)
	if n.opts.NativeEnd != nil {
		n.opts.NativeEnd(n.cluster)
	}
	if on {
		signal(n.changed) // turned on again meanwhile
	}
}

// see takes in whether the member is followed.
func (n *nativeObserver) see(live bool) { n.sight(func() { n.live = live }) }

// sight changes what can be seen. Once both sides can be seen again, what the one
// did while the other was out of sight is computed anew.
func (n *nativeObserver) sight(change func()) {
	n.mu.Lock()
	change()
	saw := n.sees
	n.sees = n.live && n.following
	again := n.tracker != nil && n.sees && !saw
	if again {
		n.tracker.See(time.Now())
	}
	n.mu.Unlock()
	if again {
		n.lookAtAll()
	}
}

func (n *nativeObserver) convert(obj runtime.Object) (theirs, bool) {
	endpoints, ok := obj.(*corev1.Endpoints)
	if !ok || endpoints == nil {
		return theirs{}, false
	}
	v := n.decoder.Endpoints(endpoints)
	return theirs{key: v.Object.Key, addresses: native.Of(v.Object.Subsets)}, true
}

// status lists the Services about which both sides have been seen to differ for
// longer than tolerance; nil where the configuration does not ask for it, or it does not go on.
func (n *nativeObserver) status(cluster string, now time.Time, tolerance time.Duration) *metrics.NativeStatus {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tracker == nil || !n.sees {
		return nil
	}
	differing := n.tracker.Disagreements(now.Add(-tolerance))
	out := &metrics.NativeStatus{BehindSeconds: n.tracker.Behind(now).Seconds(), DifferingCount: len(differing), Differing: []metrics.NativeDifference{}}
	for _, d := range differing {
		out.Differing = append(out.Differing, metrics.NativeDifference{
			Cluster: cluster, Namespace: d.Service.Namespace, Service: d.Service.Name, Since: d.Since.UTC(),
			Ours: append([]string{}, d.Ours...), Theirs: append([]string{}, d.Theirs...), // never null
		})
	}
	return out
}
