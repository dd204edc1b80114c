// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what people write by hand

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// mostAskers is how many questions of a member are under way at most.
const mostAskers = 100

// askers ask questions, many at a time: half as many after each answer that the server is
// busy, and one more after every other.
type askers struct {
	ask func(context.Context, member.Question) (busy bool)

	work chan struct{}

	mu      sync.Mutex // of all below
	queue   []member.Question
	limit   int
	running int
}

func newAskers(ask func(context.Context, member.Question) bool) *askers {
	return &askers{ask: ask, work: make(chan struct{}, 1), limit: mostAskers}
}

// add has questions asked.
func (a *askers) add(questions []member.Question) {
	if len(questions) == 0 {
		return
	}
	a.mu.Lock()
	a.queue = append(a.queue, questions...)
	a.mu.Unlock()
	signal(a.work)
}

// run asks until ctx ends, and waits for what is under way.
func (a *askers) run(ctx context.Context) {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.work:
		}
		for q, ok := a.next(); ok; q, ok = a.next() {
			tasks.Go(func() { a.done(a.ask(ctx, q)) })
		}
	}
}

// next takes a question if there is one and room for it.
func (a *askers) next() (q member.Question, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 || a.running >= a.limit {
		return q, false
	}
	q, a.queue = a.queue[0], a.queue[1:]
	a.running++
	return q, true
}

func (a *askers) done(busy bool) {
	a.mu.Lock()
	a.running--
	if busy {
		a.limit = max(1, a.limit/2)
	} else {
		a.limit = min(mostAskers, a.limit+1)
	}
	a.mu.Unlock()
	signal(a.work)
}

// ask asks a question that is still open, and tells the state the answer.
func (m *Member) ask(ctx context.Context, q member.Question) (busy bool) {
	m.mu.Lock()
	open, reader := m.state.Open(q), m.reader
	m.mu.Unlock()
	if !open {
		return false
	}
	answer := member.Answer{Question: q}
	session, err := m.access.Get(ctx)
	switch {
	case err != nil:
	case q.Kind == member.SlicesOf:
		var list []runtime.Object
		var revision uint64
		if list, revision, err = session.List(ctx, kube.EndpointSlices, q.Key.Namespace, syncer.LabelServiceName+"="+q.Key.Name); err == nil {
			answer.Outcome, answer.Object = member.There, member.SliceList{Items: slicesOf(reader, list), Revision: revision}
		}
	default:
		var object runtime.Object
		if object, err = session.Ask(ctx, resourceOf(q.Kind), q.Key); err == nil {
			answer.Outcome = member.NotThere
			if object != nil {
				answer.Outcome, answer.Object = member.There, valueOf(reader, object)
			}
		}
	}
	if err != nil {
		m.failed(err)
	}
	if ctx.Err() == nil {
		m.step(answer)
	}
	return kube.RetryAfter(err) > 0
}

func resourceOf(kind member.Kind) kube.Resource {
	return [...]kube.Resource{kube.Pods, kube.Services, kube.Endpoints, kube.EndpointSlices}[kind]
}

// valueOf is an object as the state takes it; nil: it is of no kind that was asked for.
func valueOf(r *reader, o runtime.Object) any {
	switch o := o.(type) {
	case *corev1.Pod:
		v := r.pod(o)
		v.Object.Matches = v.former // until a list says what the new rules make of all
		return v.Versioned
	case *corev1.Service:
		return r.decoder.Service(o)
	case *corev1.Endpoints:
		return r.decoder.Endpoints(o)
	case *discoveryv1.EndpointSlice:
		return r.decoder.Slice(o)
	}
	return nil
}

func slicesOf(r *reader, list []runtime.Object) (out []store.Versioned[store.HandSlice]) {
	for _, o := range list {
		if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
			out = append(out, r.decoder.Slice(slice))
		}
	}
	return out
}
