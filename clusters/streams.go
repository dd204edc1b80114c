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

// LivePods and HandWrittenSlices are selectors of streams. They keep off the wire pods that have
// finished, which are gone, and slices that controllers derive from what is read here at its
// source.
const (
	LivePods          = "status.phase!=Succeeded,status.phase!=Failed"
	HandWrittenSlices = syncer.LabelServiceName + "," + syncer.LabelSliceManagedBy +
		" notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + "," + syncer.SliceManagedBy + ")"
)

// streams run the streams of a member. reconcile is for one goroutine.
type streams struct {
	member  *Member
	running map[member.Scope]*stream

	mu      sync.Mutex // of all below
	relist  []member.Scope
	restart bool
}

// stream is a follower that runs.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}
	relist func()
}

// want has streams listed again beside themselves, or all begun anew, at the next reconcile.
func (s *streams) want(relist []member.Scope, restart bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relist, s.restart = append(s.relist, relist...), s.restart || restart
}

// reconcile makes what runs what is to be followed.
func (s *streams) reconcile(scopes []member.Scope) {
	s.mu.Lock()
	relist, restart := s.relist, s.restart
	s.relist, s.restart = nil, false
	s.mu.Unlock()
	var ended []*stream
	for scope, running := range s.running {
		if restart || !slices.Contains(scopes, scope) {
			running.cancel()
			ended = append(ended, running)
			delete(s.running, scope)
		}
	}
	for _, running := range ended {
		<-running.done
	}
	for _, scope := range scopes {
		if running := s.running[scope]; running == nil {
			s.running[scope] = s.begin(scope)
		} else if slices.Contains(relist, scope) {
			running.relist()
		}
	}
}

// begin begins a stream.
func (s *streams) begin(scope member.Scope) *stream {
	m := s.member
	switch scope.Kind {
	case member.Pods:
		return follow(m, scope, kube.Pods, "", LivePods, (*reader).pod)
	case member.Services:
		return follow(m, scope, kube.Services, "", "", func(r *reader, o *corev1.Service) item[syncer.Service] {
			return item[syncer.Service]{Versioned: r.decoder.Service(o)}
		})
	case member.Endpoints:
		fields := ""
		if scope.Name != "" {
			fields = "metadata.name=" + scope.Name
		}
		return follow(m, scope, kube.Endpoints, "", fields, func(r *reader, o *corev1.Endpoints) item[store.HandEndpoints] {
			return item[store.HandEndpoints]{Versioned: r.decoder.Endpoints(o)}
		})
	}
	return follow(m, scope, kube.EndpointSlices, HandWrittenSlices, "", func(r *reader, o *discoveryv1.EndpointSlice) item[store.HandSlice] {
		return item[store.HandSlice]{Versioned: r.decoder.Slice(o)}
	})
}

// item is an object as it was read. by is with what, if that may be exchanged; former is what
// the rules before match.
type item[T member.Object] struct {
	store.Versioned[T]
	by     *reader
	former uint64
}

// follow begins a stream of one kind.
func follow[T member.Object, O any](m *Member, scope member.Scope, resource kube.Resource, labels, fields string,
	read func(*reader, *O) item[T]) *stream {
	kind := kube.Kind[item[T]]{Resource: resource, Namespace: scope.Namespace, Labels: labels, Fields: fields,
		Convert: func(o runtime.Object) (*item[T], error) {
			of, ok := any(o).(*O)
			if !ok {
				return nil, fmt.Errorf("a %T among %s", o, resource.Resource)
			}
			return new(read(m.reading(), of)), nil
		}}
	follower := kube.NewFollower(kind, m.access, kube.Sink[item[T]](&sink[T]{member: m, scope: scope}), m.failed)
	ctx, cancel := context.WithCancel(m.ctx)
	running := &stream{cancel: cancel, done: make(chan struct{}), relist: follower.Relist}
	go func() {
		defer close(running.done)
		follower.Run(ctx)
	}()
	return running
}

// sink takes what a stream shows into the state. by is what its last list was read with: what
// comes is matched with the same rules until a list was read with others (T7).
type sink[T member.Object] struct {
	member *Member
	scope  member.Scope
	by     *reader
}

// Seen implements kube.Sink.
func (s *sink[T]) Seen(o *item[T], _ uint64, arrived time.Time) {
	seen := &member.Seen[T]{Scope: s.scope, Versioned: o.Versioned, Arrived: arrived}
	if pod, ok := any(&seen.Object).(*syncer.Pod); ok && o.by != s.by {
		pod.Matches = o.former
	}
	s.member.step(seen)
}

// Gone implements kube.Sink.
func (s *sink[T]) Gone(key syncer.Key, uid string, revision uint64, arrived time.Time) {
	s.member.step(member.Gone{Scope: s.scope, Key: key, UID: uid, Revision: revision, Arrived: arrived})
}

// Listed implements kube.Sink.
func (s *sink[T]) Listed(all []kube.Versioned[item[T]], revision uint64) {
	list := member.Listed[T]{Scope: s.scope, Items: make([]store.Versioned[T], 0, len(all)), Revision: revision}
	s.by = s.member.reading()
	for i := range all {
		if o := all[i].Object; o != nil {
			list.Items = append(list.Items, o.Versioned)
			s.by = o.by
		}
	}
	if s.scope.Kind == member.Pods {
		list.Rules = s.by.rules
		s.by.inForce.CompareAndSwap(false, s.scope.Namespace == "") // other namespaces may not be listed yet
	}
	s.member.step(list)
}

// At implements kube.Sink.
func (s *sink[T]) At(revision uint64) {
	s.member.step(member.At{Scope: s.scope, Revision: revision})
}

// Phase implements kube.Sink.
func (s *sink[T]) Phase(phase kube.Phase, err error) {
	if err != nil {
		s.member.failed(err)
	}
	s.member.step(member.Changed{Scope: s.scope, Phase: member.Phase(phase), Err: err})
}

// WentBack implements kube.Sink.
func (s *sink[T]) WentBack() { s.member.step(member.WentBack{Scope: s.scope}) }
