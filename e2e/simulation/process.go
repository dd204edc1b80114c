// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// Process is one Tributary: its cores, and between them what the shells of the product do.
type Process struct {
	*schedule
	rng
	world *world
	name  string
	// skew is how far its clock is ahead; dead when it has ended, frozen until when it stands
	// still. What would have happened then happens afterwards.
	skew    time.Duration
	dead    bool
	frozen  time.Duration
	backlog []func()
	thawed  time.Duration // when it last stood still, for the laws

	config     *Config // since configured
	configured time.Duration
	ingress    *way
	members    []*seen // sorted by name
	cache      *cache.Cache
	core       *reconcile.Core
	follows    []interface{ end() }
	waiting    []func() // for the ingress cluster to have been listed
	started    bool     // it has been listed
	listed     bool     // every member has

	news      []news
	comparing bool
	wake      time.Time // of the dispatcher
	underWay  int
	// knew is what was shown of members when a replica was last compared, for the laws.
	knew map[syncer.Key]map[string]known
	election
}

func newProcess(w *world, name string, skew time.Duration) *Process {
	p := &Process{schedule: &w.schedule, rng: newRNG(w.seed, name), world: w, name: name, skew: skew, knew: map[syncer.Key]map[string]known{}}
	p.ingress = p.way(w.ingress, w.link(name, w.ingress))
	p.cache = cache.New(cache.Options{Instance: instance, News: func(key syncer.Key, o plan.Object, arrived time.Time) {
		if p.news = append(p.news, news{key, o, arrived}); len(p.news) == 1 {
			p.after(0, p.tell)
		}
	}})
	p.core = reconcile.NewCore(p, p.cache, nil)
	for _, kind := range cache.Kinds {
		p.follows = append(p.follows, follow(p.ingress, Query{Kind: kindNamed(kind.Resource.Resource), Labels: kind.Labels}, p.cache.Sink(kind.Kind), func(o Object) *cache.Object {
			return cache.Decode(o, instance)
		}))
	}
	p.configure(w.config)
	p.poll()
	p.elect()
	return p
}

func kindNamed(resource string) Kind {
	for k := range kindCount {
		if k.resource().Resource == resource {
			return k
		}
	}
	panic("no kind is called " + resource)
}

func (p *Process) linkTo(c *Cluster) *link { return p.world.link(p.name, c) }

func (p *Process) way(c *Cluster, l *link) *way { return &way{link: l, process: p} }

// clock is the process's own.
func (p *Process) clock() time.Time { return p.time().Add(p.skew) }

// runs runs a part of the process, unless it has ended; later, and in its order, if it stands
// still.
func (p *Process) runs(do func()) {
	switch {
	case p.dead:
	case p.now < p.frozen || len(p.backlog) > 0:
		if p.backlog = append(p.backlog, do); len(p.backlog) == 1 {
			p.schedule.after(p.frozen-p.now, p.thaw)
		}
	default:
		do()
	}
}

// thaw runs what would have run while the process stood still.
func (p *Process) thaw() {
	if p.now < p.frozen {
		p.schedule.after(p.frozen-p.now, p.thaw)
		return
	}
	for i := 0; i < len(p.backlog) && !p.dead; i++ {
		p.backlog[i]()
	}
	p.backlog = nil
}

// after runs a part of the process after a while.
func (p *Process) after(d time.Duration, do func()) {
	p.schedule.after(d, func() { p.runs(do) })
}

// end ends the process at once, as a node does that loses power.
func (p *Process) end() {
	p.dead = true
	for _, f := range p.follows {
		f.end()
	}
	for _, m := range p.members {
		m.end()
	}
}

// poll looks now and then, as the product does, whether every member has come to be listed.
func (p *Process) poll() {
	p.read()
	p.after(time.Second, p.poll)
}

// read looks whether the ingress cluster, or every member, has come to be listed.
func (p *Process) read() {
	if !p.cache.HasSynced() {
		return
	}
	for p.started = true; len(p.waiting) > 0; p.waiting = p.waiting[1:] {
		p.waiting[0]()
	}
	if listed := p.AllListed(); listed != p.listed {
		if p.listed = listed; listed {
			p.core.AddAll(p.clock(), record.EventListed)
		}
	}
	p.compare()
}

// configure goes over to a configuration.
func (p *Process) configure(c *Config) {
	p.config, p.configured = c, p.now
	former := p.members
	p.members = nil
	for i := range c.Members {
		mc := &c.Members[i]
		at := slices.IndexFunc(former, func(m *seen) bool { return m.name == mc.Name })
		if at < 0 {
			p.members = append(p.members, newSeen(p, mc, p.world.record[mc.Name]))
			continue
		}
		p.members = append(p.members, former[at].apply(mc))
		former = slices.Delete(slices.Clone(former), at, at+1)
	}
	for _, m := range former {
		m.end()
	}
	p.core.AddAll(p.clock(), record.EventConfigured)
	p.read()
}

// dirty hands on what a member reports.
func (p *Process) dirty(name string, changes []member.Change, bulk bool) {
	for i := range changes {
		c := &changes[i]
		hint := plan.Addition
		switch {
		case bulk:
			hint = plan.Bulk
		case c.Effect == syncer.Removal:
			hint = plan.Removal
		}
		p.core.Add(p.clock(), c.Replica, hint, record.Cause{Cluster: name, Kind: c.Cause.Kind, Event: c.Cause.Event, Arrival: c.Cause.Arrived, Live: c.Cause.Live})
	}
	p.compare()
}

// Shares implements reconcile.Source.
func (p *Process) Shares(replica syncer.Key) []plan.Share {
	shares := make([]plan.Share, len(p.members))
	for i, m := range p.members {
		g := m.state.Give(replica)
		m.rewake()
		shares[i] = plan.Share{Member: m.name, Place: p.config.place(m.name), Listed: g.Listed, Given: g.Given, Keep: g.Keep, SourceOpen: g.SourceOpen, Reserve: g.Reserve}
	}
	return shares
}

// Settings implements reconcile.Source.
func (p *Process) Settings() *reconcile.Settings { return p.config.settings() }

// Replicas implements reconcile.Source.
func (p *Process) Replicas() iter.Seq[syncer.Key] {
	return func(yield func(syncer.Key) bool) {
		for _, m := range p.members {
			for key := range m.state.Tables().Replicas() {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// AllListed implements reconcile.Source.
func (p *Process) AllListed() bool {
	return !slices.ContainsFunc(p.members, func(m *seen) bool { return !m.state.Listed() })
}

// comparison is how long one takes.
const comparison = 100 * time.Microsecond

// news is that somebody changed an object of a replica.
type news struct {
	key     syncer.Key
	object  plan.Object
	arrived time.Time
}

// tell hands on news of what stands, in an order that follows from nothing else.
func (p *Process) tell() {
	slices.SortStableFunc(p.news, func(a, b news) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.object.String(), b.object.String()))
	})
	for _, n := range p.news {
		p.core.Edited(p.clock(), n.key, n.object, n.arrived)
	}
	p.news = nil
	p.compare()
}

// compare compares what waits, one replica after the other, and sends what may be sent.
func (p *Process) compare() {
	if !p.started || p.comparing {
		return
	}
	p.comparing = true
	p.after(comparison, func() {
		p.comparing = false
		of := p.core.Begin(p.clock())
		if of == nil {
			p.send()
			return
		}
		if !p.until.IsZero() { // what a standby decides nobody learns
			p.core.Decide(of)
		}
		knew := map[string]known{}
		for _, m := range p.members {
			knew[m.name] = m.knows(of.Replica.Namespace)
		}
		p.knew[of.Replica] = knew
		p.core.Settle(p.clock(), of)
		p.core.Done(of)
		p.world.laws.compared(p)
		p.send()
		p.compare()
	})
}

// send sends what is granted a place.
func (p *Process) send() {
	for p.leads() && p.underWay < lanes.Places {
		g, wake := p.core.Request(p.clock())
		if g == nil {
			if !wake.IsZero() && (p.wake.IsZero() || wake.Before(p.wake)) {
				p.wake = wake
				p.after(wake.Sub(p.clock()), func() {
					if p.wake.Equal(wake) {
						p.wake = time.Time{}
						p.compare()
					}
				})
			}
			return
		}
		p.underWay++
		p.request(g)
	}
}

// request makes the request of a grant.
func (p *Process) request(g *lanes.Grant) {
	a := g.Action
	until, held := p.permit()
	if !held {
		p.answered(g, until, nil, errNotSent)
		return
	}
	w := &attempt{process: p, action: a, knew: p.knew[a.Replica], id: ID{kindNamed(write.Resources[a.Kind].Resource), a.Object().Namespace, a.Name}}
	p.ingress.requestIf(w.send, w.id, min(write.Deadline(&a), until.Sub(p.clock())), w.write, func(value any, err error) {
		switch {
		case err == nil:
			o, _ := value.(Object)
			p.answered(g, until, write.Stands(&a, o, instance), nil)
		case write.Outdated(write.Meaning(err)):
			p.ingress.request(w.id, askTimeout, func(s *Server) (any, error) { return s.Get(w.id) }, func(value any, asked error) {
				var o *cache.Object
				if asked == nil {
					o = cache.Decode(value.(Object), instance)
				} else if notFound(asked) {
					o = write.Gone(&a)
				}
				p.answered(g, until, o, err)
			})
		default:
			p.answered(g, until, nil, err)
		}
	})
}

// errNotSent is a request for which there was no permit.
var errNotSent = errors.New("this process does not lead")

func (p *Process) answered(g *lanes.Grant, until time.Time, o *cache.Object, err error) {
	p.core.Answered(p.clock(), g, o, err, err != nil && !p.clock().Before(until))
	p.underWay--
	p.compare()
}
