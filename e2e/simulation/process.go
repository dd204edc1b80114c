// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/clusters/member"
	"tributary.dev/tributary/internal/apitest/model"
	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/leader"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/reconcile/write"
	"tributary.dev/tributary/syncer"
)

// Process is one Tributary process: its cores, and what the product's shells do between them.
type Process struct {
	*schedule
	rng
	world *world
	name  string
	// skew is how far its clock is ahead. A dead process has ended. Until frozen it is suspended:
	// what is due runs afterwards.
	skew   time.Duration
	dead   bool
	frozen time.Duration

	config     *Config // since configured
	configured time.Duration
	ingress    *way
	members    map[string]*seen
	cache      *cache.Cache
	core       *reconcile.Core
	wakes      alarm
	underWay   int
	compared   map[syncer.Key]compared
	answered   map[model.ID]int // for the laws, how many writes had taken effect when the last request about an object was answered
	// The election does what client-go's elector does, with the product's term as its arithmetic.
	// until is when the permit ends by the process's own clock, zero if there is none. since is when
	// it began to lead, renewed when the last successful write of the Lease was sent.
	term           leader.Term
	until          time.Time
	since, renewed time.Duration
}

func newProcess(w *world, name string, skew time.Duration) *Process {
	p := &Process{schedule: &w.schedule, rng: newRNG(w.seed, name), world: w, name: name, skew: skew, compared: map[syncer.Key]compared{}, answered: map[model.ID]int{}}
	p.ingress = &way{link: w.link(name, w.ingress), process: p}
	p.cache = cache.New(instance, func(key syncer.Key, o plan.Object, arrived time.Time) {
		p.core.Edited(p.clock(), key, o, arrived)
		p.compare()
	})
	p.core = reconcile.NewCore(p, p.cache, nil)
	decode := func(o model.Object) *cache.Object { return cache.Decode(o, instance) }
	for kind, of := range cache.Kinds {
		follow(p.ingress, model.Query{Kind: model.Kind(of.Resource.Resource), Labels: of.Labels}, decode, p.cache.Sink(plan.Kind(kind)))
	}
	p.configure(w.config)
	p.poll()
	p.term = leader.Term{Identity: fmt.Sprintf("%s-%d", name, p.steps), Lease: leaseTime}
	p.look()
	return p
}

// clock is the process's own clock.
func (p *Process) clock() time.Time { return p.time().Add(p.skew) }

// runs runs a part of the process unless it has ended; later, and in order, if it is frozen.
func (p *Process) runs(do func()) {
	switch {
	case p.dead:
	case p.now < p.frozen:
		p.after(p.frozen-p.now, do)
	default:
		do()
	}
}

// after runs a part of the process after a while.
func (p *Process) after(d time.Duration, do func()) {
	p.schedule.after(d, func() { p.runs(do) })
}

// alarm goes off once, at the earliest of the times that it was set to.
type alarm struct{ at time.Time }

func (a *alarm) set(p *Process, at time.Time, do func()) {
	if !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	p.after(at.Sub(p.clock()), func() {
		if a.at.Equal(at) {
			a.at = time.Time{}
			do()
		}
	})
}

// poll checks periodically, as the product does, whether requests may be sent.
func (p *Process) poll() {
	p.compare()
	p.after(time.Second, p.poll)
}

// whenListed calls do once the ingress cluster has been listed.
func (p *Process) whenListed(do func()) {
	if p.cache.HasSynced() {
		p.after(beginTime, do)
	} else {
		p.after(tickEvery, func() { p.whenListed(do) })
	}
}

func (p *Process) configure(c *Config) {
	former, read := p.members, p.config
	p.config, p.configured, p.members = c, p.now, map[string]*seen{}
	for _, name := range sorted(former) {
		if of := c.Members[name]; of == nil || !slices.Equal(of.Namespaces, read.Members[name].Namespaces) { // other namespaces are read from scratch
			former[name].end()
			delete(former, name)
		}
	}
	for _, name := range sorted(c.Members) {
		if m := former[name]; m == nil {
			p.members[name] = newSeen(p, name)
		} else {
			m.step(member.Configured{Config: *c.Members[name]})
			p.members[name] = m
		}
	}
	p.core.AddAll(p.clock(), record.EventConfigured)
	p.compare()
}

// Shares implements reconcile.Source.
func (p *Process) Shares(replica syncer.Key) (shares []syncer.Share) {
	for _, name := range sorted(p.members) {
		g := p.members[name].state.Give(replica)
		g.Member, g.Place = name, p.config.place(name)
		shares = append(shares, g)
	}
	return shares
}

// Settings implements reconcile.Source.
func (p *Process) Settings() *reconcile.Settings { return &p.config.Settings }

// Replicas implements reconcile.Source.
func (p *Process) Replicas() (keys []syncer.Key) {
	for _, m := range p.members {
		keys = slices.AppendSeq(keys, m.state.Tables().Replicas())
	}
	return keys
}

// AllListed implements reconcile.Source.
func (p *Process) AllListed() bool {
	return !slices.ContainsFunc(slices.Collect(maps.Values(p.members)), func(m *seen) bool { return !m.state.Listed() })
}

// compareTime is how long a comparison takes, beginTime the delay before requested work starts.
const (
	compareTime = 100 * time.Microsecond
	beginTime   = 10 * time.Microsecond
)

// compare schedules work.
func (p *Process) compare() { p.wakes.set(p, p.clock().Add(compareTime), p.work) }

// work compares the next replica, and sends the requests that are granted a place.
func (p *Process) work() {
	if !p.cache.HasSynced() {
		return
	}
	if of := p.core.Compare(p.clock); of != nil {
		c := compared{slices: of.Now.Slices, knew: map[string]known{}, level: true}
		for _, m := range p.members {
			pods, services := m.stream(member.Pods, of.Replica.Namespace), m.stream(member.Services, of.Replica.Namespace)
			c.knew[m.name] = known{pods.reached(), services.reached(), pods.follows(), pods.of()}
			_, revision, read := m.state.Tables().Service(of.Replica)
			svc := p.world.serviceOf(m.way.home, of.Replica)
			c.level = c.level && (!read || svc != nil && kube.Revision(svc.ResourceVersion) == revision)
		}
		p.compared[of.Replica] = c
		p.compare()
	}
	for p.leads() {
		g, wake := p.core.Request(p.clock())
		if g == nil {
			if !wake.IsZero() {
				p.wakes.set(p, wake, p.work)
			}
			return
		}
		p.underWay++
		p.request(g)
	}
}

// attempt is a write of a process in flight.
type attempt struct {
	process *Process
	action  plan.Action
	id      model.ID
	sent    time.Duration
	lawful  bool // when it was sent
	bound   bool // whether it has a precondition
	compared
}

// compared is, for the laws, what was known when a replica was last compared: its slices, what had been
// reached of members, and with level whether the Services that were read were current: one that was
// seen may wait for its pods.
type compared struct {
	slices []plan.Slice
	knew   map[string]known
	level  bool
}

// known is the revisions of a member that a process has reached, whether it follows its pods, and how
// often the store had been restored of which it has read them.
type known struct {
	pods, services uint64
	follows        bool
	store          int
}

func (p *Process) request(g *lanes.Grant) {
	until, a := p.until, &attempt{process: p, action: g.Action, compared: p.compared[g.Action.Replica]}
	a.id = model.Kind(cache.Kinds[a.action.Kind].Resource.Resource).ID(a.action.Object().Namespace, a.action.Name)
	answered := func(o *cache.Object, err error) {
		p.core.Answered(p.clock(), g, o, err, err != nil && !p.leads())
		p.underWay--
		p.answered[a.id] = p.world.writes
		p.compare()
	}
	may := func() bool {
		// By the true clock: it holds the Lease, and sent its last renewal less than two thirds of that ago.
		lease := model.Of[*coordinationv1.Lease](p.world.ingress.Server, leaseID)
		a.sent, a.lawful = p.now, p.now-p.renewed <= leaseTime*2/3 && (lease == nil || *lease.Spec.HolderIdentity == p.term.Identity)
		return p.leads()
	}
	p.ingress.request(a.id, min(write.Deadline(&a.action), until.Sub(p.clock())), may, a.write, func(value any, err error) {
		switch {
		case err == nil:
			o, _ := value.(model.Object)
			answered(write.After(&a.action, o, instance), nil)
		case write.Outdated(write.Meaning(err)):
			p.ingress.ask(a.id, askTimeout, func(o model.Object, asked error) {
				current := cache.Decode(o, instance)
				if o == nil && asked == nil {
					current = write.Gone(&a.action)
				}
				answered(current, err)
			})
		default:
			answered(nil, err)
		}
	})
}

// write is the effect of an attempt at the server, which the laws judge.
func (a *attempt) write(s *model.Server) (after any, err error) {
	before := s.Find(a.id)
	if a.action.Verb == plan.Delete {
		options := write.Deletion(&a.action)
		a.bound = options.Preconditions != nil && options.Preconditions.UID != nil && options.Preconditions.ResourceVersion != nil
		after, err = s.Delete(a.id, options.Preconditions)
	} else {
		o := write.Render(&a.action, instance).(model.Object)
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
	a.process.world.judge(a, before, s.Find(a.id))
	return after, nil
}
