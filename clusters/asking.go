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

// mostAsked is how many questions of a member are under way at most.
const mostAsked = 100

// Questions limits how many questions are under way: half as many after each answer that the
// server is busy, and one more after every other.
type Questions struct {
	Waiting []member.Question
	// asked are under way; the limit is mostAsked-less.
	asked, less int
}

// Next takes a question that is still open if there is one and the limit allows it.
func (qs *Questions) Next(open func(member.Question) bool) (q member.Question, ok bool) {
	for len(qs.Waiting) > 0 && qs.asked < mostAsked-qs.less {
		q, qs.Waiting = qs.Waiting[0], qs.Waiting[1:]
		if open(q) {
			qs.asked++
			return q, true
		}
	}
	return q, false
}

// Answered notes that a question is not under way any more.
func (qs *Questions) Answered(busy bool) {
	qs.asked--
	if busy {
		qs.less += (mostAsked - qs.less) / 2
	} else {
		qs.less = max(0, qs.less-1)
	}
}

// ask asks a question, and tells the state the answer.
func (m *Member) ask(q member.Question) {
	answer, err := m.answer(q)
	if err != nil {
		m.failed(err)
	}
	if m.ctx.Err() == nil {
		m.step(answer)
	}
	m.mu.Lock()
	m.questions.Answered(kube.RetryAfter(err) > 0)
	m.mu.Unlock()
	signal(m.work)
}

// answer asks the cluster a question. After an error it cannot tell.
func (m *Member) answer(q member.Question) (member.Answer, error) {
	decoder, rules := m.reading()
	a := member.Answer{Question: q, Rules: rules}
	session, err := m.access.Get(m.ctx)
	if err != nil {
		return a, err
	}
	object, err := session.Ask(m.ctx, resources[q.Kind], q.Key)
	switch {
	case err != nil:
	case object == nil:
		a.Outcome = member.NotThere
	default:
		a.Outcome, a.Object = member.There, ValueOf(decoder, object)
	}
	return a, err
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
