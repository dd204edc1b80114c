// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters"
	"tributary.dev/tributary/clusters/decode"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/syncer"
)

// seen is a member as one process sees it.
type seen struct {
	*Process
	name       string
	namespaces []string // with a stream each; nil: one for all
	way        *way
	state      *member.State
	streams    map[member.Scope]*follower
	stores     int // how often a restored store was noticed
	over       bool
	listed     bool // as far as noticed
	// What steps have requested and begin has yet to start.
	begins  alarm
	relists []member.Scope
	asks    []member.Question
}

const tickEvery = 250 * time.Millisecond

func newSeen(p *Process, c *MemberConfig) *seen {
	m := &seen{Process: p, name: c.Name, namespaces: c.Namespaces, streams: map[member.Scope]*follower{}}
	cluster := first(p.world.members, func(o *Cluster) bool { return o.name == c.Name })
	m.way = &way{link: p.world.link(p.name, cluster), process: p}
	m.state = member.New(p.clock(), c.Config)
	m.begin()
	m.tick()
	return m
}

// memberOf finds a member by its name, nil if there is none.
func memberOf(all []*seen, name string) *seen {
	return first(all, func(m *seen) bool { return m.name == name })
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
	if _, back := e.(member.WentBack); back {
		m.stores++
	}
	effects := m.state.Step(m.clock(), e)
	if before := m.listed; effects.ScopesChanged {
		if m.listed = m.state.Listed(); m.listed && !before && m.AllListed() {
			m.core.AddAll(m.clock(), record.EventListed)
		}
	}
	if len(effects.Dirty) > 0 {
		m.dirty(m.name, effects.Dirty, effects.Bulk)
	}
	m.asks = append(m.asks, effects.Ask...)
	m.relists = append(m.relists, effects.Relist...)
	if effects.WantPublished {
		m.lookUp()
	}
	if effects.ScopesChanged || len(effects.Ask)+len(effects.Relist) > 0 {
		m.begins.set(m.Process, m.clock().Add(beginTime), m.begin)
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
	m.whenListed(func() { m.step(member.Published(m.cache.Published(m.name))) })
}

// begin starts what steps have requested.
func (m *seen) begin() {
	if m.over {
		return
	}
	relists, asks, scopes := m.relists, m.asks, m.state.Scopes()
	m.relists, m.asks = nil, nil
	for scope, f := range m.streams {
		if !slices.Contains(scopes, scope) {
			f.end()
			delete(m.streams, scope)
		}
	}
	for _, scope := range scopes {
		if f := m.streams[scope]; f == nil {
			m.streams[scope] = m.follow(scope)
		} else if slices.Contains(relists, scope) {
			f.relist()
		}
	}
	for _, q := range asks {
		m.ask(q)
	}
}

// anew lists everything that is followed again.
func (m *seen) anew() {
	m.relists = append(m.relists, m.state.Scopes()...)
	m.begin()
}

// known is the revisions of a member that a process has reached, and whether it follows its pods.
type known struct {
	pods, services uint64
	follows        bool
}

// level reports whether the Service in the table, if any, is current: one that was seen may wait for its pods.
func (m *seen) level(key syncer.Key) bool {
	_, revision, read := m.state.Tables().Service(key)
	svc := m.world.serviceOf(m.way.home, key)
	return !read || svc != nil && kube.Revision(svc.ResourceVersion) == revision
}

// stream returns the follower of a kind in a namespace, nil if there is none.
func (m *seen) stream(kind member.Kind, namespace string) *follower {
	if f := m.streams[member.Scope{Kind: kind}]; f != nil {
		return f
	}
	return m.streams[member.Scope{Kind: kind, Namespace: namespace}]
}

func (m *seen) ask(q member.Question) {
	answer, store := member.Answer{Question: q}, m.stores
	m.way.ask(queries[q.Kind].Kind.ID(q.Key.Namespace, q.Key.Name), askTimeout, func(o model.Object, err error) {
		if o != nil {
			answer.Outcome, answer.Object = member.There, clusters.ValueOf(decoder, o)
		} else if err == nil {
			answer.Outcome = member.NotThere
		}
		if m.stores != store && m.state.Open(q) {
			m.world.laws.breaks(NoPhantom, "%s takes an answer about %s for one of after the restore of %s", m.Process.name, q.Key, m.name)
		}
		answer.Busy = kube.RetryAfter(err) > 0
		m.step(answer)
		m.begin()
	})
}

// queries select what is followed of each kind of a member, and decoder decodes it.
var (
	queries = [...]model.Query{
		member.Pods:           {Kind: model.Pods, Fields: clusters.LivePods},
		member.Services:       {Kind: model.Services},
		member.Endpoints:      {Kind: model.Endpoints},
		member.EndpointSlices: {Kind: model.EndpointSlices, Labels: clusters.HandWrittenSlices},
	}
	decoder = decode.New(decode.Options{})
)

func (m *seen) follow(scope member.Scope) *follower {
	q := queries[scope.Kind]
	if q.Namespace = scope.Namespace; scope.Name != "" {
		q.Fields = "metadata.name=" + scope.Name
	}
	sink := map[member.Kind]func(*seen, member.Scope) kube.Sink[model.Object]{
		member.Pods: taking(decoder.Pod), member.Services: taking(decoder.Service), member.Endpoints: taking(decoder.Endpoints), member.EndpointSlices: taking(decoder.Slice)}[scope.Kind]
	return follow(m.way, q, sink(m, scope))
}

// taking returns a sink that decodes what a stream shows and applies it to the state.
func taking[O model.Object, T member.Object](read func(O) store.Versioned[T]) func(*seen, member.Scope) kube.Sink[model.Object] {
	return func(m *seen, scope member.Scope) kube.Sink[model.Object] {
		return reading[store.Versioned[T]]{
			&clusters.Intake[T]{Scope: scope, Step: m.step, Failed: func(error) {}},
			func(o model.Object) *store.Versioned[T] { return new(read(o.(O))) },
		}
	}
}
