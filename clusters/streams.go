// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what people write by hand

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/rules"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// LivePods and HandWrittenSlices are selectors of streams. They leave out pods that have finished,
// which are gone, and slices that controllers derive from what is read here at its source.
const (
	LivePods          = "status.phase!=Succeeded,status.phase!=Failed"
	HandWrittenSlices = syncer.LabelServiceName + "," + syncer.LabelSliceManagedBy +
		" notin (" + syncer.SliceComputed + "," + syncer.SliceMirrored + "," + syncer.SliceManagedBy + ")"
)

// resources are what is read of each kind.
var resources = [...]kube.Resource{member.Pods: kube.Pods, member.Services: kube.Services,
	member.Endpoints: kube.Endpoints, member.EndpointSlices: kube.EndpointSlices}

// stream is a running follower.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{}
	relist func()
	rules  *rules.Set // that its pods are matched with
	store  int        // that it is to be listed in
}

// begin asks what steps have asked for, and starts and ends streams so that those of the state's scopes
// run. With other rules pods are listed again meanwhile (T7), and everything in a restored store (T4).
func (m *Member) begin(running map[member.Scope]*stream) {
	m.mu.Lock()
	scopes, asks, rules, store := m.state.Scopes(), m.asks, m.settings.Rules, m.state.Store()
	m.asks = nil
	m.mu.Unlock()
	for _, q := range asks {
		m.tasks.Go(func() { m.ask(q) })
	}
	for scope, s := range running {
		if !slices.Contains(scopes, scope) {
			s.cancel()
			<-s.done // no event of it may come once the same scope is followed again
			delete(running, scope)
		}
	}
	for _, scope := range scopes {
		s := running[scope]
		if s == nil {
			s = m.stream(scope)
			running[scope] = s
		} else if s.store != store || scope.Kind == member.Pods && s.rules != rules {
			s.relist()
		}
		s.rules, s.store = rules, store
	}
}

// stream starts to follow a scope.
func (m *Member) stream(scope member.Scope) *stream {
	q := kube.Query{Resource: resources[scope.Kind], Namespace: scope.Namespace}
	if scope.Name != "" {
		q.Fields = "metadata.name=" + scope.Name
	}
	switch scope.Kind {
	case member.Pods:
		q.Fields = LivePods
		return follow(m, scope, q, (*decode.Decoder).ReadPod)
	case member.Services:
		return follow(m, scope, q, byType[syncer.Service](q.Resource))
	case member.Endpoints:
		return follow(m, scope, q, byType[store.HandEndpoints](q.Resource))
	}
	q.Labels = HandWrittenSlices
	return follow(m, scope, q, byType[store.HandSlice](q.Resource))
}

// byType reads objects by way of their type: of these there are few events.
func byType[T member.Object](of kube.Resource) func(*decode.Decoder, []byte) (store.Versioned[T], error) {
	return func(d *decode.Decoder, content []byte) (v store.Versioned[T], err error) {
		object, err := of.Object(content)
		if err == nil {
			v = ValueOf(d, object).(store.Versioned[T])
		}
		return v, err
	}
}

func follow[T member.Object](m *Member, scope member.Scope, q kube.Query, read func(*decode.Decoder, []byte) (store.Versioned[T], error)) *stream {
	to := &Intake[T]{Scope: scope, Step: m.step, Failed: m.failed}
	converts := func() kube.Convert[store.Versioned[T]] {
		decoder, rules := m.reading()
		to.rules = rules
		return func(content []byte) (*store.Versioned[T], error) {
			v, err := read(decoder, content)
			return &v, err
		}
	}
	follower := kube.NewFollower(q, converts, m.access, kube.Sink[store.Versioned[T]](to), m.failed)
	ctx, cancel := context.WithCancel(m.ctx)
	s := &stream{cancel: cancel, done: make(chan struct{}), relist: follower.Relist}
	m.tasks.Go(func() {
		defer close(s.done)
		follower.Run(ctx)
	})
	return s
}

// Intake turns what a stream shows into events for Step. Failed is called with why it is not followed.
type Intake[T member.Object] struct {
	Scope  member.Scope
	Step   func(member.Event)
	Failed func(error)
	rules  member.Rules // that pods of the newest list are matched with
}

// Event implements kube.Sink.
func (s *Intake[T]) Event(v kube.Versioned[store.Versioned[T]], arrived time.Time) {
	s.Step(&member.Shown[T]{Scope: s.Scope, Key: v.Key, UID: v.UID, Revision: v.Revision, Object: v.Object, Arrived: arrived})
}

// Listed implements kube.Sink.
func (s *Intake[T]) Listed(all []kube.Versioned[store.Versioned[T]], revision uint64) {
	items := make([]store.Versioned[T], len(all))
	for i := range all {
		items[i] = *all[i].Object
	}
	s.Step(member.Listed[T]{Scope: s.Scope, Items: items, Revision: revision, Rules: s.rules})
}

// Following implements kube.Sink.
func (s *Intake[T]) Following(is bool, err error) {
	if err != nil {
		s.Failed(err)
	}
	s.Step(member.Phase{Scope: s.Scope, Following: is, Err: err})
}

// WentBack implements kube.Sink.
func (s *Intake[T]) WentBack() { s.Step(member.WentBack{Scope: s.Scope}) }

// ask asks the cluster a question, and tells the state the answer: after an error it cannot tell.
func (m *Member) ask(q member.Question) {
	decoder, rules := m.reading()
	a := member.Answer{Question: q, Rules: rules}
	var object kube.Object
	session, err := m.access.Get(m.ctx)
	if err == nil {
		object, err = session.Ask(m.ctx, resources[q.Kind], q.Key)
	}
	switch {
	case err != nil:
		m.failed(err)
		a.Busy = kube.RetryAfter(err) > 0
	case object == nil:
		a.Gone = true
	default:
		a.Object = ValueOf(decoder, object)
	}
	if m.ctx.Err() == nil {
		m.step(a)
	}
}

// ValueOf is an object as the state stores it; nil: it is of no kind that is asked for.
func ValueOf(d *decode.Decoder, o runtime.Object) any {
	switch o := o.(type) {
	case *corev1.Pod:
		return d.Pod(o)
	case *corev1.Service:
		return d.Service(o)
	case *corev1.Endpoints:
		return d.Endpoints(o)
	case *discoveryv1.EndpointSlice:
		return d.Slice(o)
	}
	return nil
}
