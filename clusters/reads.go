// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"golang.org/x/sync/errgroup"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
)

//lint:file-ignore SA1019 core/v1 Endpoints are what members hold

// reads asks a member for single objects, several at a time.
type reads struct {
	m    *Member
	wake chan struct{}

	mu      sync.Mutex
	waiting []evidence.Read
}

// readsAtOnce bounds the questions that are under way: with 100 ms for each, 5,000 take
// less than half a minute.
const readsAtOnce = 24

func newReads(m *Member) *reads { return &reads{m: m, wake: make(chan struct{}, 1)} }

// ask notes what is to be asked.
func (r *reads) ask(objects []evidence.Read) {
	if len(objects) == 0 {
		return
	}
	r.mu.Lock()
	r.waiting = append(r.waiting, objects...)
	r.mu.Unlock()
	signal(r.wake)
}

// run asks until ctx ends.
func (r *reads) run(ctx context.Context) {
	var under errgroup.Group
	under.SetLimit(readsAtOnce)
	for {
		select {
		case <-ctx.Done():
			_ = under.Wait()
			return
		case <-r.wake:
		}
		r.mu.Lock()
		batch := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		for _, object := range batch {
			under.Go(func() error {
				r.read(ctx, object)
				return nil
			})
		}
	}
}

// read asks for one object and hands on what came of it.
func (r *reads) read(ctx context.Context, object evidence.Read) {
	answer := evidence.Answer{Read: object}
	if s := r.m.hold(); s != nil {
		found, outcome, err := s.Read(ctx, resources[object.Kind], object.Key)
		s.Release()
		answer.Outcome = outcomes[outcome]
		if outcome == kube.There {
			answer.Object = r.m.decode(found)
		}
		if err != nil {
			r.m.log.Debug("object could not be read", "kind", object.Kind, "name", object.Key, "error", err)
		}
	}
	if ctx.Err() == nil {
		r.m.step(answer, time.Now())
	}
}

var resources = map[evidence.Kind]kube.Resource{
	evidence.Services: kube.Services, evidence.Pods: kube.Pods,
	evidence.Endpoints: kube.Endpoints, evidence.Slices: kube.EndpointSlices,
}

var outcomes = map[kube.Outcome]evidence.Outcome{
	kube.Failed: evidence.Failed, kube.Gone: evidence.NotFound, kube.There: evidence.There, kube.Refused: evidence.Refused,
}

// hold returns the session in use, which the caller releases; nil is none.
func (m *Member) hold() *session {
	m.conn.Lock()
	defer m.conn.Unlock()
	if m.session != nil {
		m.session.Hold()
	}
	return m.session
}

// decode turns an object that was read into a value.
func (m *Member) decode(object runtime.Object) any {
	switch o := object.(type) {
	case *corev1.Pod:
		return m.decoder.Pod(o)
	case *corev1.Service:
		return m.decoder.Service(o)
	case *corev1.Endpoints:
		return m.decoder.Endpoints(o)
	case *discoveryv1.EndpointSlice:
		return m.decoder.Slice(o)
	}
	return nil
}
