// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/metrics/record"
)

// seen is a member as one process sees it.
type seen struct {
	*Process
	name    string
	way     *way
	state   *member.State
	streams map[member.Scope]*following
	over    bool
}

const tickEvery = 250 * time.Millisecond

func newSeen(p *Process, name string) *seen {
	m := &seen{Process: p, name: name, streams: map[member.Scope]*following{}}
	cluster := first(p.world.members, func(o *Cluster) bool { return o.name == name })
	m.way = &way{link: p.world.link(p.name, cluster), process: p}
	m.state = member.New(p.clock(), *p.config.Members[name])
	m.begin(nil)
	m.tick()
	return m
}

func (m *seen) end() {
	m.over = true
	for _, f := range m.streams {
		f.end()
	}
}

// step applies an event, and handles its effects.
func (m *seen) step(e member.Event) {
	if m.over {
		return
	}
	before := m.state.Listed()
	effects := m.state.Step(m.clock(), e)
	if effects.ScopesChanged && !before && m.state.Listed() && m.AllListed() {
		m.core.AddAll(m.clock(), record.EventListed)
	}
	for _, c := range effects.Dirty {
		m.core.Add(m.clock(), c.Replica, c.Effect, effects.Bulk, record.Cause{Cluster: m.name, Kind: c.Cause.Kind, Event: c.Cause.Event, Arrival: c.Cause.Arrived, Live: c.Cause.Live})
		m.compare()
	}
	if effects.WantPublished {
		m.lookUp()
	}
	if effects.ScopesChanged || len(effects.Ask) > 0 {
		m.after(beginTime, func() { m.begin(effects.Ask) })
	}
}

// tick tells the state the time, periodically.
func (m *seen) tick() {
	m.after(tickEvery, func() {
		if !m.over {
			m.step(member.Tick{Ahead: m.way.cluster.skew - m.skew})
			m.tick()
		}
	})
}

// lookUp applies what is published of the member, once that has been listed.
func (m *seen) lookUp() {
	m.whenListed(func() {
		m.step(member.Published(m.cache.Published(m.name, func(string) int { return m.config.place(m.name) })))
	})
}

// begin asks questions, and starts and ends streams so that those of the state's scopes run; in a
// restored store they are listed again.
func (m *seen) begin(asks []member.Question) {
	if m.over {
		return
	}
	scopes := m.state.Scopes()
	for scope, f := range m.streams {
		if !slices.Contains(scopes, scope) {
			f.end()
			delete(m.streams, scope)
		}
	}
	for _, scope := range scopes {
		if f := m.streams[scope]; f == nil {
			q := followed[scope.Kind].Query
			if q.Namespace = scope.Namespace; scope.Name != "" {
				q.Fields = "metadata.name=" + scope.Name
			}
			m.streams[scope] = followed[scope.Kind].follow(m.way, q, scope, m.step)
		} else if f.listIn != m.state.Store() {
			f.relist()
		}
		m.streams[scope].listIn = m.state.Store()
	}
	for _, q := range asks {
		m.ask(q)
	}
}

// anew lists everything that is followed again.
func (m *seen) anew() {
	for _, scope := range sorted(m.streams) {
		m.streams[scope].relist()
	}
}

// stream returns the follower of a kind in a namespace, nil if there is none.
func (m *seen) stream(kind member.Kind, namespace string) *following {
	return cmp.Or(m.streams[member.Scope{Kind: kind}], m.streams[member.Scope{Kind: kind, Namespace: namespace}])
}

func (m *seen) ask(q member.Question) {
	answer, store := member.Answer{Question: q}, m.state.Store()
	m.way.ask(followed[q.Kind].Kind.ID(q.Key.Namespace, q.Key.Name), askTimeout, func(o model.Object, err error) {
		if o != nil {
			answer.Object = clusters.ValueOf(decoder, o)
		} else if err == nil {
			answer.Gone = true
		}
		if m.state.Store() != store && m.state.Open(q) {
			m.world.breaks(NoPhantom, "%s takes an answer about %s for one of after the restore of %s", m.Process.name, q.Key, m.name)
		}
		answer.Busy = kube.RetryAfter(err) > 0
		m.step(answer)
	})
}

// followed says of each kind of a member what is followed, and how that is decoded.
var followed = [...]struct {
	model.Query
	follow func(*way, model.Query, member.Scope, func(member.Event)) *following
}{
	member.Pods:           {model.Query{Kind: model.Pods, Fields: clusters.LivePods}, decoding(decoder.Pod)},
	member.Services:       {model.Query{Kind: model.Services}, decoding(decoder.Service)},
	member.Endpoints:      {model.Query{Kind: model.Endpoints}, decoding(decoder.Endpoints)},
	member.EndpointSlices: {model.Query{Kind: model.EndpointSlices, Labels: clusters.HandWrittenSlices}, decoding(decoder.Slice)},
}

var decoder = decode.New(decode.Options{})

// decoding follows a kind whose objects are decoded with read.
func decoding[O model.Object, T member.Object](read func(O) store.Versioned[T]) func(*way, model.Query, member.Scope, func(member.Event)) *following {
	return func(w *way, q model.Query, scope member.Scope, step func(member.Event)) *following {
		decode := func(o model.Object) *store.Versioned[T] { return new(read(o.(O))) }
		return follow(w, q, decode, kube.Sink[store.Versioned[T]](&clusters.Intake[T]{Scope: scope, Step: step, Failed: func(error) {}}))
	}
}
