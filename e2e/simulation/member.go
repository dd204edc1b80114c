// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

//lint:file-ignore SA1019 core/v1 Endpoints are what people write by hand

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// seen is a member as one process sees it.
type seen struct {
	*Process
	name    string
	config  *MemberConfig
	way     *way
	state   *member.State
	decoder *decode.Decoder
	streams map[member.Scope]running
	relists []member.Scope
	working bool          // a look at the streams is planned
	tickAt  time.Duration // 0: none is planned
	// asked wait for a place, asking are under way, of mostAsked at most.
	asked             []member.Question
	asking, mostAsked int
	over              bool
}

// running is a stream that runs.
type running interface {
	end()
	relist()
	reached() (revision uint64, follows bool)
	forget()
	shown(revision uint64) *telling
}

func (f *follower[T]) relist() {
	f.course.Relist(f.way.process.clock())
	f.turn()
}

func (f *follower[T]) reached() (last uint64, follows bool) {
	if n := len(f.told); n > 0 {
		last = f.told[n-1].revision
	}
	return last, f.stream != nil && f.dropList == nil
}

func (f *follower[T]) forget() { f.told = nil }

const mostAsked = 100

// newSeen is a member that is known by a UID; "" is none.
func newSeen(p *Process, c *MemberConfig, uid string) *seen {
	m := &seen{Process: p, name: c.Name, config: c, decoder: decode.New(decode.Options{}), streams: map[member.Scope]running{}, mostAsked: mostAsked}
	m.way = p.way(nil, p.world.link(p.name, p.world.member(c.Name)))
	m.way.pin = uid
	m.way.learned = func(uid string) { p.world.learned(p, c.Name, uid) }
	m.state = member.New(p.clock(), c.state())
	m.work()
	return m
}

func (m *seen) end() {
	m.over = true
	for _, f := range m.streams {
		f.end()
	}
}

// apply goes over to another configuration, or returns who takes its place: other namespaces are
// read from nothing.
func (m *seen) apply(c *MemberConfig) *seen {
	if !slices.Equal(c.Only, m.config.Only) {
		return m.replaced(c)
	}
	m.config = c
	m.step(member.Configured{Config: c.state()})
	return m
}

// replaced ends it, and returns one that begins anew in its place.
func (m *seen) replaced(c *MemberConfig) *seen {
	m.end()
	return newSeen(m.Process, c, m.way.pin)
}

// step takes an event in, and does what comes of it.
func (m *seen) step(e member.Event) {
	if m.over {
		return
	}
	effects := m.state.Step(m.clock(), e)
	m.rewake()
	if len(effects.Dirty) > 0 {
		m.dirty(m.name, effects.Dirty, effects.Bulk)
	}
	slices.SortFunc(effects.Ask, func(a, b member.Question) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Key.Compare(b.Key)) })
	m.asked = append(m.asked, effects.Ask...)
	if effects.WantStanding {
		m.lookUp()
	}
	if m.relists = append(m.relists, effects.Relist...); effects.Follow || len(m.relists) > 0 {
		m.soon()
	}
	m.ask()
}

// rewake plans the next tick.
func (m *seen) rewake() {
	at := m.now + 10*time.Second
	if wake := m.state.Wake(); !wake.IsZero() {
		at = min(at, m.now+max(0, wake.Sub(m.clock())))
	}
	if m.tickAt != 0 && m.tickAt <= at {
		return
	}
	m.tickAt = at
	m.after(at-m.now, func() {
		if m.tickAt == at && !m.over {
			m.tickAt = 0
			m.step(member.Tick{Ahead: m.way.cluster.skew - m.skew})
		}
	})
}

// lookUp tells what stands of the member, once that is known.
func (m *seen) lookUp() {
	if !m.started {
		m.waiting = append(m.waiting, m.lookUp)
		return
	}
	m.after(10*time.Microsecond, func() {
		found := m.cache.Standing(m.name)
		all := make([]member.Standing, len(found))
		for i, s := range found {
			all[i] = member.Standing(s)
		}
		m.step(member.Stood{Replicas: all})
		m.read()
	})
}

// soon has the streams made what they should be.
func (m *seen) soon() {
	if m.working {
		return
	}
	m.working = true
	m.after(10*time.Microsecond, m.work)
}

// work makes what runs what is to be followed.
func (m *seen) work() {
	m.working = false
	if m.over {
		return
	}
	relists, scopes := m.relists, m.state.Scopes()
	m.relists = nil
	for scope, f := range m.streams {
		if !slices.Contains(scopes, scope) {
			f.end()
			delete(m.streams, scope)
		}
	}
	for _, scope := range scopes {
		if f := m.streams[scope]; f == nil {
			m.streams[scope] = m.begin(scope)
		} else if slices.Contains(relists, scope) {
			f.relist()
		}
	}
}

// begin begins a stream.
func (m *seen) begin(scope member.Scope) running {
	q := Query{Kind: kinds[scope.Kind], Namespace: scope.Namespace}
	switch scope.Kind {
	case member.Pods:
		q.Fields = clusters.LivePods
		return begin(m, scope, q, func(o *corev1.Pod) store.Versioned[syncer.Pod] { return m.decoder.Pod(o) })
	case member.Services:
		return begin(m, scope, q, func(o *corev1.Service) store.Versioned[syncer.Service] { return m.decoder.Service(o) })
	case member.Endpoints:
		if scope.Name != "" {
			q.Fields = "metadata.name=" + scope.Name
		}
		return begin(m, scope, q, func(o *corev1.Endpoints) store.Versioned[store.HandEndpoints] { return m.decoder.Endpoints(o) })
	}
	q.Labels = clusters.HandWrittenSlices
	return begin(m, scope, q, func(o *discoveryv1.EndpointSlice) store.Versioned[store.HandSlice] { return m.decoder.Slice(o) })
}

// kinds are a member's.
var kinds = [...]Kind{Pods, Services, Endpoints, EndpointSlices}

func begin[O Object, T member.Object](m *seen, scope member.Scope, q Query, decode func(O) store.Versioned[T]) running {
	return follow(m.way, q, kube.Sink[store.Versioned[T]](&sink[T]{m, scope}), func(o Object) *store.Versioned[T] { return new(decode(o.(O))) })
}

// sink takes what a stream shows into the state.
type sink[T member.Object] struct {
	member *seen
	scope  member.Scope
}

// Seen implements kube.Sink.
func (s *sink[T]) Seen(o *store.Versioned[T], _ uint64, arrived time.Time) {
	s.member.step(&member.Seen[T]{Scope: s.scope, Versioned: *o, Arrived: arrived})
}

// Gone implements kube.Sink.
func (s *sink[T]) Gone(key syncer.Key, uid string, revision uint64, arrived time.Time) {
	s.member.step(member.Gone{Scope: s.scope, Key: key, UID: uid, Revision: revision, Arrived: arrived})
}

// Listed implements kube.Sink.
func (s *sink[T]) Listed(all []kube.Versioned[store.Versioned[T]], revision uint64) {
	list := member.Listed[T]{Scope: s.scope, Revision: revision}
	for i := range all {
		list.Items = append(list.Items, *all[i].Object)
	}
	s.member.step(list)
}

// At implements kube.Sink.
func (s *sink[T]) At(revision uint64) { s.member.step(member.At{Scope: s.scope, Revision: revision}) }

// Phase implements kube.Sink.
func (s *sink[T]) Phase(phase kube.Phase, err error) {
	s.member.step(member.Changed{Scope: s.scope, Phase: member.Phase(phase), Err: err})
}

// WentBack implements kube.Sink.
func (s *sink[T]) WentBack() { s.member.step(member.WentBack{Scope: s.scope}) }

// ask asks what waits to be asked.
func (m *seen) ask() {
	for len(m.asked) > 0 && m.asking < m.mostAsked {
		q := m.asked[0]
		if m.asked = m.asked[1:]; m.state.Open(q) {
			m.asking++
			m.question(q)
		}
	}
}

// question asks one question.
func (m *seen) question(q member.Question) {
	answer := member.Answer{Question: q}
	of := ID{kinds[q.Kind], q.Key.Namespace, q.Key.Name}
	m.way.request(of, askTimeout, func(s *Server) (any, error) { return s.Get(of) }, func(value any, err error) {
		m.asking--
		m.mostAsked = min(mostAsked, m.mostAsked+1)
		switch {
		case err == nil:
			answer.Outcome, answer.Object = member.There, m.object(value)
		case notFound(err):
			answer.Outcome = member.NotThere
		case kube.RetryAfter(err) > 0:
			m.mostAsked = max(1, m.mostAsked/2)
		}
		m.step(answer)
	})
}

// object is an object as the state takes it.
func (m *seen) object(value any) any {
	switch o := value.(type) {
	case *corev1.Pod:
		return m.decoder.Pod(o)
	case *corev1.Service:
		return m.decoder.Service(o)
	case *corev1.Endpoints:
		return m.decoder.Endpoints(o)
	case *discoveryv1.EndpointSlice:
		return m.decoder.Slice(o)
	}
	panic(fmt.Sprintf("a %T was asked for", value))
}
