// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

//lint:file-ignore SA1019 core/v1 Endpoints are what people write by hand

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
)

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
		a.Outcome = member.NotThere
	default:
		a.Outcome, a.Object = member.There, ValueOf(decoder, object)
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
