// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what members' controllers write

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/native"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// How long both sides differ before it is told, and how many Services are named.
const (
	nativeTolerance = time.Minute
	nativeNamed     = 20
)

// observer holds what a member's own controllers write against what is computed here
// (observeNative). It only looks. A nil observer does nothing.
type observer struct {
	member     *Member
	namespaces []string // with a stream each; nil: one covers all
	stop       context.CancelFunc
	done       chan struct{}
	work       chan struct{}

	mu      sync.Mutex // of all below
	tracker *native.Tracker
	dirty   map[syncer.Key]time.Time // when what touched it arrived
}

// observe has the member observed if the settings ask for it. It is for one goroutine.
func (m *Member) observe() {
	m.mu.Lock()
	wanted, namespaces, former := m.settings.Cluster.ObserveNative, m.settings.Cluster.Namespaces.Plain(), m.native
	if wanted == (former != nil) && (former == nil || slices.Equal(namespaces, former.namespaces)) {
		m.mu.Unlock()
		return
	}
	m.native = nil
	if wanted {
		ctx, stop := context.WithCancel(m.ctx)
		n := &observer{member: m, namespaces: namespaces, stop: stop, done: make(chan struct{}),
			work: make(chan struct{}, 1), tracker: native.NewTracker(), dirty: map[syncer.Key]time.Time{}}
		m.native = n
		go n.run(ctx)
	}
	m.mu.Unlock()
	former.end()
}

// end ends the observation and waits for it.
func (n *observer) end() {
	if n != nil {
		n.stop()
		<-n.done
	}
}

// theirs is one Endpoints object as far as it is compared.
type theirs struct {
	key       syncer.Key
	addresses native.Addresses
}

// run observes until ctx ends.
func (n *observer) run(ctx context.Context) {
	defer close(n.done)
	m := n.member
	kind := kube.Kind[theirs]{Resource: kube.Endpoints, Convert: func(o runtime.Object) (*theirs, error) {
		of, ok := o.(*corev1.Endpoints)
		if !ok {
			return nil, kube.ErrUndecodable
		}
		e := m.reading().decoder.Endpoints(of).Object
		return &theirs{e.Key, native.Of(e.Subsets)}, nil
	}}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	namespaces := n.namespaces
	if namespaces == nil {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		kind.Namespace = namespace
		others := slices.DeleteFunc(slices.Clone(namespaces), func(o string) bool { return o == namespace })
		follower := kube.NewFollower(kind, m.access, nativeSink{n, others}, m.failed)
		tasks.Go(func() { follower.Run(ctx) })
	}
	n.compare(ctx)
}

// touch notes what is to be computed.
func (n *observer) touch(changes []member.Change) {
	if n == nil {
		return
	}
	n.mu.Lock()
	for _, c := range changes {
		if _, known := n.dirty[c.Replica]; !known {
			n.dirty[c.Replica] = c.Cause.Arrived
		}
	}
	n.mu.Unlock()
	signal(n.work)
}

// compare tells the tracker what is computed, whenever that may have changed.
func (n *observer) compare(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.work:
		}
		n.mu.Lock()
		dirty := n.dirty
		n.dirty = map[syncer.Key]time.Time{}
		n.mu.Unlock()
		for key, at := range dirty {
			expected, ok := n.expect(key)
			n.mu.Lock()
			late, measured := n.tracker.Ours(key, expected, ok, at)
			n.mu.Unlock()
			n.report(late, measured)
		}
	}
}

// expect is what upstream's rules alone make of a Service.
func (n *observer) expect(key syncer.Key) (native.Expected, bool) {
	m := n.member
	m.mu.Lock()
	defer m.mu.Unlock()
	of, found := m.state.Tables().Explain(key, m.state.Clock())
	if !found || !of.Replicated || !m.state.Listed() {
		return native.Expected{}, false
	}
	pods := make([]*syncer.Pod, len(of.Pods))
	for i := range of.Pods {
		pods[i] = &of.Pods[i].Pod
		pods[i].NodeSilent, pods[i].WasReady, pods[i].Matches = false, false, 0
	}
	c := syncer.Compute(of.Service, slices.Values(pods), syncer.Options{})
	return native.Expect(&c, syncer.EndpointsCapacity)
}

func (n *observer) report(late time.Duration, measured bool) {
	if measured && n.member.options.NativeLag != nil {
		n.member.options.NativeLag(n.member.name, late)
	}
}

// status is how both compare; nil: nobody observes.
func (n *observer) status() *metrics.NativeStatus {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	differing := n.tracker.Disagreements(now.Add(-nativeTolerance))
	out := &metrics.NativeStatus{BehindSeconds: n.tracker.Behind(now).Seconds(), DifferingCount: len(differing)}
	for _, d := range differing[:min(len(differing), nativeNamed)] {
		out.Differing = append(out.Differing, metrics.NativeDifference{
			Namespace: d.Service.Namespace, Service: d.Service.Name, Since: d.Since, Ours: d.Ours, Theirs: d.Theirs})
	}
	return out
}

// nativeSink takes in what the member's own controllers write.
type nativeSink struct {
	*observer
	others []string // namespaces that other streams cover
}

func (n nativeSink) tell(key syncer.Key, addresses native.Addresses, there bool, arrived time.Time) {
	n.mu.Lock()
	late, measured := n.tracker.Theirs(key, addresses, there, arrived)
	n.mu.Unlock()
	n.report(late, measured)
}

// Seen implements kube.Sink.
func (n nativeSink) Seen(o *theirs, _ uint64, arrived time.Time) {
	n.tell(o.key, o.addresses, true, arrived)
}

// Gone implements kube.Sink.
func (n nativeSink) Gone(key syncer.Key, _ string, _ uint64, arrived time.Time) {
	n.tell(key, nil, false, arrived)
}

// Listed implements kube.Sink.
func (n nativeSink) Listed(all []kube.Versioned[theirs], _ uint64) {
	list := make(map[syncer.Key]native.Addresses, len(all))
	for _, v := range all {
		if v.Object != nil {
			list[v.Object.key] = v.Object.addresses
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tracker.Replace(list, time.Now(), n.others...)
}

// At implements kube.Sink.
func (n nativeSink) At(uint64) {}

// Phase implements kube.Sink.
func (n nativeSink) Phase(phase kube.Phase, _ error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if phase != kube.Following {
		n.tracker.See(time.Now())
	}
}

// WentBack implements kube.Sink.
func (n nativeSink) WentBack() {}
