// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/kube"
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

	config     *Config // since configured
	configured time.Duration
	ingress    *way
	members    []*seen // sorted by name
	cache      *cache.Cache
	core       *reconcile.Core
	follows    []*follower
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

// news is that somebody changed an object of a replica.
type news struct {
	key     syncer.Key
	object  plan.Object
	arrived time.Time
}

func newProcess(w *world, name string, skew time.Duration) *Process {
	p := &Process{schedule: &w.schedule, rng: newRNG(w.seed, name), world: w, name: name, skew: skew, knew: map[syncer.Key]map[string]known{}}
	p.ingress = &way{link: w.link(name, w.ingress), process: p, learned: func(string) {}}
	p.cache = cache.New(cache.Options{Instance: instance, News: func(key syncer.Key, o plan.Object, arrived time.Time) {
		if p.news = append(p.news, news{key, o, arrived}); len(p.news) == 1 {
			p.after(0, p.tell)
		}
	}})
	p.core = reconcile.NewCore(p, p.cache, nil)
	for _, kind := range cache.Kinds {
		p.follows = append(p.follows, follow(p.ingress, Query{Kind: Kind(kind.Resource.Resource), Labels: kind.Labels}, cached{p.cache.Sink(kind.Kind)}))
	}
	p.configure(w.config)
	p.poll()
	p.elect()
	return p
}

// cached is a kube.Sink, and hands on what a Course shows to the cache.
type cached struct{ kube.Sink[cache.Object] }

func (c cached) Seen(o *shown, revision uint64, arrived time.Time) {
	c.Sink.Seen(cache.Decode(o.Object, instance), revision, arrived)
}
func (c cached) Listed(all []kube.Versioned[shown], revision uint64) {
	var list []kube.Versioned[cache.Object]
	for _, v := range all {
		list = append(list, kube.Versioned[cache.Object]{Object: cache.Decode(v.Object.Object, instance), Key: v.Key, UID: v.UID, Revision: v.Revision})
	}
	c.Sink.Listed(list, revision)
}

// clock is the process's own.
func (p *Process) clock() time.Time { return p.time().Add(p.skew) }

// runs runs a part of the process, unless it has ended; later, and in its order, if it stands
// still.
func (p *Process) runs(do func()) {
	switch {
	case p.dead:
	case p.now < p.frozen || len(p.backlog) > 0:
		if p.backlog = append(p.backlog, do); len(p.backlog) == 1 {
			p.thaw()
		}
	default:
		do()
	}
}

// thaw runs what would have run while the process stood still, as soon as it does not any more.
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

// whenStarted does something once the ingress cluster has been listed.
func (p *Process) whenStarted(do func()) {
	if p.started {
		do()
	} else {
		p.waiting = append(p.waiting, do)
	}
}

// configure goes over to a configuration.
func (p *Process) configure(c *Config) {
	former := p.members
	p.config, p.configured, p.members = c, p.now, nil
	for i := range c.Members {
		mc := &c.Members[i]
		if m := memberOf(former, mc.Name); m != nil {
			p.members = append(p.members, m.apply(mc))
		} else {
			p.members = append(p.members, newSeen(p, mc, p.world.record[mc.Name]))
		}
	}
	for _, m := range former {
		if c.member(m.name) == nil {
			m.end()
		}
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

// compareTime is how long a comparison takes.
const compareTime = 100 * time.Microsecond

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
	p.after(compareTime, func() {
		p.comparing = false
		of := p.core.Begin(p.clock())
		if of == nil {
			p.send()
			return
		}
		if p.leading() { // what a standby decides nobody learns
			p.core.Decide(of)
		}
		knew := map[string]known{}
		for _, m := range p.members {
			knew[m.name] = m.knows(of.Replica.Namespace)
		}
		p.knew[of.Replica] = knew
		p.core.Settle(p.clock(), of)
		p.core.Done(of)
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

// attempt is a write of a process on its way.
type attempt struct {
	process *Process
	action  plan.Action
	id      ID
	sent    time.Duration
	lawful  bool // when it was sent
	knew    map[string]known
	bound   bool // it has a precondition
}

// request makes the request of a grant.
func (p *Process) request(g *lanes.Grant) {
	until, a := p.until, &attempt{process: p, action: g.Action, knew: p.knew[g.Action.Replica]}
	a.id = ID{Kind(write.Resources[a.action.Kind].Resource), a.action.Object().Namespace, a.action.Name}
	answered := func(o *cache.Object, err error) {
		p.core.Answered(p.clock(), g, o, err, err != nil && !p.clock().Before(until))
		p.underWay--
		p.compare()
	}
	may := func() bool {
		a.sent, a.lawful = p.now, p.world.mayWrite(p)
		return p.leads()
	}
	p.ingress.request(a.id, min(write.Deadline(&a.action), until.Sub(p.clock())), may, a.write, func(value any, err error) {
		switch {
		case err == nil:
			o, _ := value.(Object)
			answered(write.Stands(&a.action, o, instance), nil)
		case write.Outdated(write.Meaning(err)):
			p.ingress.get(a.id, askTimeout, func(value any, asked error) {
				var o *cache.Object
				if asked == nil {
					o = cache.Decode(value.(Object), instance)
				} else if notFound(asked) {
					o = write.Gone(&a.action)
				}
				answered(o, err)
			})
		default:
			answered(nil, err)
		}
	})
}

// write takes effect at the server, under the eyes of the laws.
func (a *attempt) write(s *Server) (after any, err error) {
	before := s.get(a.id)
	if a.action.Verb == plan.Delete {
		options := write.Deletion(&a.action)
		a.bound = options.Preconditions != nil && options.Preconditions.UID != nil && options.Preconditions.ResourceVersion != nil
		after, err = s.Delete(a.id, options.Preconditions)
	} else {
		o := write.Render(&a.action, instance).(Object)
		a.bound = a.action.Verb == plan.Create || o.GetResourceVersion() != "" && o.GetUID() != ""
		if a.process.world.edits {
			o.GetLabels()["webhook"] = "was-here"
		}
		if a.action.Verb == plan.Create {
			after, err = s.Create(o)
		} else {
			after, err = s.Update(o)
		}
	}
	if err != nil {
		return nil, err
	}
	a.process.world.laws.judge(a, before, s.get(a.id))
	return after, nil
}
