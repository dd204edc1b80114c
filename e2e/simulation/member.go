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
	"tributary.dev/tributary/syncer"
)

// seen is a member as one process sees it.
type seen struct {
	*Process
	name    string
	config  *MemberConfig
	way     *way
	state   *member.State
	streams map[member.Scope]*follower
	relists []member.Scope
	// asked wait for a place, asking are under way, of mostAsked at most.
	asked             []member.Question
	asking, mostAsked int
	over              bool
}

const (
	mostAsked = 100
	tickEvery = 250 * time.Millisecond
)

// newSeen is a member that is known by a UID; "" is none.
func newSeen(p *Process, c *MemberConfig, uid string) *seen {
	m := &seen{Process: p, name: c.Name, config: c, streams: map[member.Scope]*follower{}, mostAsked: mostAsked}
	cluster := p.world.members[slices.IndexFunc(p.world.members, func(o *Cluster) bool { return o.name == c.Name })]
	m.way = &way{link: p.world.link(p.name, cluster), process: p, pin: uid, learned: func(uid string) {
		p.world.record[c.Name] = cmp.Or(p.world.record[c.Name], uid)
	}}
	m.state = member.New(p.clock(), c.state())
	m.work()
	m.tick()
	return m
}

// memberOf finds one by its name; nil: there is none.
func memberOf(all []*seen, name string) *seen {
	if at := slices.IndexFunc(all, func(m *seen) bool { return m.name == name }); at >= 0 {
		return all[at]
	}
	return nil
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
	if len(effects.Dirty) > 0 {
		m.dirty(m.name, effects.Dirty, effects.Bulk)
	}
	slices.SortFunc(effects.Ask, func(a, b member.Question) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Key.Compare(b.Key)) })
	m.asked = append(m.asked, effects.Ask...)
	if effects.WantStanding {
		m.lookUp()
	}
	if m.relists = append(m.relists, effects.Relist...); effects.Turned || len(m.relists) > 0 {
		m.after(10*time.Microsecond, m.work)
	}
	m.ask()
}

// tick tells the time again and again.
func (m *seen) tick() {
	m.after(tickEvery, func() {
		if !m.over {
			m.step(member.Tick{Ahead: m.way.cluster.skew - m.skew})
			m.tick()
		}
	})
}

// lookUp tells what stands of the member, once that is known.
func (m *seen) lookUp() {
	m.whenStarted(func() {
		m.after(10*time.Microsecond, func() {
			var stood member.Stood
			for _, s := range m.cache.Standing(m.name) {
				stood.Replicas = append(stood.Replicas, member.Standing(s))
			}
			m.step(stood)
			m.read()
		})
	})
}

// work makes what runs what is to be followed.
func (m *seen) work() {
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
			q := readers[scope.Kind].Query
			if q.Namespace = scope.Namespace; scope.Name != "" {
				q.Fields = "metadata.name=" + scope.Name
			}
			m.streams[scope] = follow(m.way, q, &sink{m, scope})
		} else if slices.Contains(relists, scope) {
			f.relist()
		}
	}
}

// anew has all that is followed listed again.
func (m *seen) anew() {
	m.relists = append(m.relists, m.state.Scopes()...)
	m.work()
}

// known is up to which revisions a process was shown a member, and whether it follows its pods.
type known struct {
	pods, services uint64
	follows        bool
}

// knows is what is known of a namespace.
func (m *seen) knows(namespace string) (k known) {
	if pods := m.stream(member.Pods, namespace); pods != nil {
		k.pods, k.follows = pods.reached(), pods.follows()
	}
	if services := m.stream(member.Services, namespace); services != nil {
		k.services = services.reached()
	}
	return k
}

// stream is the one that shows a kind in a namespace; nil: none does.
func (m *seen) stream(kind member.Kind, namespace string) *follower {
	if f := m.streams[member.Scope{Kind: kind}]; f != nil {
		return f
	}
	return m.streams[member.Scope{Kind: kind, Namespace: namespace}]
}

// shown is what first told of a revision of pods; nil: nothing has.
func (m *seen) shown(namespace string, revision uint64) *telling {
	if f := m.stream(member.Pods, namespace); f != nil {
		return f.shown(revision)
	}
	return nil
}

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
	m.way.get(ID{readers[q.Kind].Kind, q.Key.Namespace, q.Key.Name}, askTimeout, func(value any, err error) {
		m.asking--
		m.mostAsked = min(mostAsked, m.mostAsked+1)
		switch {
		case err == nil:
			answer.Outcome, answer.Object = member.There, readers[q.Kind].value(value.(Object))
		case notFound(err):
			answer.Outcome = member.NotThere
		case kube.RetryAfter(err) > 0:
			m.mostAsked = max(1, m.mostAsked/2)
		}
		m.step(answer)
	})
}

// reader is how a kind of a member is followed, and how the state takes its objects.
type reader struct {
	Query
	seen   func(scope member.Scope, o Object, arrived time.Time) member.Event
	listed func(scope member.Scope, all []kube.Versioned[shown], revision uint64) member.Event
	value  func(Object) any
}

// readers are those of a member's kinds.
var readers = [...]reader{
	member.Pods:           readerOf(Query{Kind: Pods, Fields: clusters.LivePods}, decoder.Pod),
	member.Services:       readerOf(Query{Kind: Services}, decoder.Service),
	member.Endpoints:      readerOf(Query{Kind: Endpoints}, decoder.Endpoints),
	member.EndpointSlices: readerOf(Query{Kind: EndpointSlices, Labels: clusters.HandWrittenSlices}, decoder.Slice),
}

var decoder = decode.New(decode.Options{})

func readerOf[O Object, T member.Object](q Query, read func(O) store.Versioned[T]) reader {
	return reader{q, func(scope member.Scope, o Object, arrived time.Time) member.Event {
		return &member.Seen[T]{Scope: scope, Versioned: read(o.(O)), Arrived: arrived}
	}, func(scope member.Scope, all []kube.Versioned[shown], revision uint64) member.Event {
		list := member.Listed[T]{Scope: scope, Revision: revision}
		for _, v := range all {
			list.Items = append(list.Items, read(v.Object.Object.(O)))
		}
		return list
	}, func(o Object) any { return read(o.(O)) }}
}

// sink is a kube.Sink, and takes what a stream shows into the state.
type sink struct {
	*seen
	scope member.Scope
}

func (s *sink) Seen(o *shown, _ uint64, arrived time.Time) {
	s.step(readers[s.scope.Kind].seen(s.scope, o.Object, arrived))
}
func (s *sink) Gone(key syncer.Key, uid string, revision uint64, arrived time.Time) {
	s.step(member.Gone{Scope: s.scope, Key: key, UID: uid, Revision: revision, Arrived: arrived})
}
func (s *sink) Listed(all []kube.Versioned[shown], revision uint64) {
	s.step(readers[s.scope.Kind].listed(s.scope, all, revision))
}
func (s *sink) At(revision uint64) { s.step(member.At{Scope: s.scope, Revision: revision}) }
func (s *sink) WentBack()          { s.step(member.WentBack{Scope: s.scope}) }
func (s *sink) Following(is bool, err error) {
	s.step(member.Changed{Scope: s.scope, Following: is, Err: err})
}
