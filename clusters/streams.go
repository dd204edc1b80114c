// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what people write by hand

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// What is kept off the wire: pods that have finished, which are gone, and slices that
// controllers derive from what is read here at its source.
const (
	livePods          = "status.phase!=Succeeded,status.phase!=Failed"
	handWrittenSlices = syncer.LabelServiceName + "," + syncer.LabelSliceManagedBy +
		" notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + "," + syncer.SliceManagedBy + ")"
)

// streams run the streams of a member. reconcile and end are for one goroutine.
type streams struct {
	member *Member

	mu      sync.Mutex // of all below
	running map[member.Scope]*stream
	relist  map[member.Scope]bool
	restart bool
}

// stream is a follower that runs. beside, if not nil, is one that is to take its place once it
// has listed.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}
	beside *stream
}

func newStreams(m *Member) *streams {
	return &streams{member: m, running: map[member.Scope]*stream{}, relist: map[member.Scope]bool{}}
}

// want has streams listed again beside themselves, or all begun anew, at the next reconcile.
func (s *streams) want(relist []member.Scope, restart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart = s.restart || restart
	for _, scope := range relist {
		s.relist[scope] = true
	}
}

// reconcile makes what runs what is to be followed.
func (s *streams) reconcile(scopes []member.Scope) {
	s.mu.Lock()
	var ended []*stream
	for scope, running := range s.running {
		if s.restart || !slices.Contains(scopes, scope) {
			ended = append(ended, running)
			delete(s.running, scope)
		}
	}
	relist := s.relist
	s.relist, s.restart = map[member.Scope]bool{}, false
	s.mu.Unlock()
	stop(ended...)
	for _, scope := range scopes {
		s.mu.Lock()
		running := s.running[scope]
		s.mu.Unlock()
		if running == nil || relist[scope] {
			begin(s, scope, running)
		}
	}
}

// end ends all streams.
func (s *streams) end() { s.reconcile(nil) }

// stop ends streams, and what runs beside them, and waits for them.
func stop(streams ...*stream) {
	for _, running := range streams {
		running.cancel()
	}
	for _, running := range streams {
		for of := running; of != nil; of = of.beside {
			of.cancel()
			<-of.done
		}
	}
}

// begin begins a stream, or one beside another.
func begin(s *streams, scope member.Scope, former *stream) {
	m := s.member
	r := m.reading()
	d := r.decoder
	switch scope.Kind {
	case member.Pods:
		follow(s, scope, former, r, kube.Pods, "", livePods, func(o *corev1.Pod) store.Versioned[syncer.Pod] { return d.Pod(o) })
	case member.Services:
		follow(s, scope, former, r, kube.Services, "", "", func(o *corev1.Service) store.Versioned[syncer.Service] { return d.Service(o) })
	case member.Endpoints:
		fields := ""
		if scope.Name != "" {
			fields = "metadata.name=" + scope.Name
		}
		follow(s, scope, former, r, kube.Endpoints, "", fields, func(o *corev1.Endpoints) store.Versioned[store.HandEndpoints] { return d.Endpoints(o) })
	default:
		follow(s, scope, former, r, kube.EndpointSlices, handWrittenSlices, "", func(o *discoveryv1.EndpointSlice) store.Versioned[store.HandSlice] { return d.Slice(o) })
	}
}

// follow begins a stream of one kind.
func follow[T member.Object, O any](s *streams, scope member.Scope, former *stream, r *reader, resource kube.Resource,
	labels, fields string, read func(*O) store.Versioned[T]) {
	m := s.member
	ctx, cancel := context.WithCancel(m.ctx)
	running := &stream{cancel: cancel, done: make(chan struct{})}
	kind := kube.Kind[store.Versioned[T]]{Resource: resource, Namespace: scope.Namespace, Labels: labels, Fields: fields,
		Convert: func(o runtime.Object) (*store.Versioned[T], error) {
			of, ok := any(o).(*O)
			if !ok {
				return nil, fmt.Errorf("a %T among %s", o, resource.Resource)
			}
			return new(read(of)), nil
		}}
	to := &sink[T]{streams: s, scope: scope, ctx: ctx, running: running, former: former}
	if scope.Kind == member.Pods {
		to.rules = r.rules
	}
	follower := kube.NewFollower(kind, m.accessNow(), to, m.failed)
	s.mu.Lock()
	var replaced *stream
	if former == nil {
		s.running[scope] = running
	} else {
		replaced, former.beside = former.beside, running
	}
	s.mu.Unlock()
	if replaced != nil {
		stop(replaced)
	}
	go func() {
		defer close(running.done)
		follower.Run(ctx)
	}()
}

// sink takes what a stream shows into the state.
type sink[T member.Object] struct {
	streams *streams
	scope   member.Scope
	rules   *member.Rules
	ctx     context.Context
	running *stream
	former  *stream // until this one has listed: the one whose place it takes
}

// Seen implements kube.Sink.
func (s *sink[T]) Seen(o *store.Versioned[T], _ uint64, arrived time.Time) {
	s.streams.member.step(&member.Seen[T]{Scope: s.scope, Versioned: *o, Arrived: arrived})
}

// Gone implements kube.Sink.
func (s *sink[T]) Gone(key syncer.Key, uid string, revision uint64, arrived time.Time) {
	s.streams.member.step(member.Gone{Scope: s.scope, Key: key, UID: uid, Revision: revision, Arrived: arrived})
}

// Listed implements kube.Sink.
func (s *sink[T]) Listed(all []kube.Versioned[store.Versioned[T]], revision uint64) {
	if s.former != nil && !s.takeOver() {
		return
	}
	items := make([]store.Versioned[T], 0, len(all))
	for i := range all {
		if all[i].Object != nil {
			items = append(items, *all[i].Object)
		}
	}
	s.streams.member.step(member.Listed[T]{Scope: s.scope, Items: items, Revision: revision, Rules: s.rules})
}

// takeOver ends the former stream; false: this one has been ended itself.
func (s *sink[T]) takeOver() bool {
	s.former.cancel()
	<-s.former.done
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	if s.ctx.Err() != nil || s.streams.running[s.scope] != s.former {
		return false
	}
	s.streams.running[s.scope], s.former = s.running, nil
	return true
}

// At implements kube.Sink.
func (s *sink[T]) At(revision uint64) {
	s.streams.member.step(member.At{Scope: s.scope, Revision: revision})
}

// Phase implements kube.Sink.
func (s *sink[T]) Phase(phase kube.Phase, err error) {
	if s.former == nil && s.ctx.Err() == nil {
		if err != nil {
			s.streams.member.failed(err)
		}
		s.streams.member.step(member.Changed{Scope: s.scope, Phase: member.Phase(phase), Err: err})
	}
}

// WentBack implements kube.Sink.
func (s *sink[T]) WentBack() { s.streams.member.step(member.WentBack{Scope: s.scope}) }
