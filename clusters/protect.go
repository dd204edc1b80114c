// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// protection keeps what a member seems to lose on weak evidence. Package guard
// decides; here are the lock, the objects that are kept, the second looks, and
// what an operator releases. See protectlists.go for lists, protectpods.go for
// pods that turn not ready, protectstart.go for the first lists after a start.
type protection struct {
	m *Member
	// stale is true while the member has been out of sight for longer than it may.
	stale atomic.Bool
	// most is how many objects of a kind are taken; 0: any number.
	most atomic.Int64

	// mu also orders whatever changes pods and Services: a list, an event, a
	// release. It is never held while the sink is called.
	mu     sync.Mutex
	limits guard.Limits
	// pods and services are about lists, readiness about pods that turn not ready.
	lists     [guardedKinds]listGuard
	readiness guard.Readiness
	written   map[writtenKey]time.Time
	// overfull is true for a kind since a live event would have exceeded most.
	overfull [essentialKinds]bool
	starting firstLists
	told     told
	seen     time.Time // when the member was last up
	staleFor time.Duration
}

// The kinds of objects whose lists are judged.
const (
	guardedPods = iota
	guardedServices
	guardedWritten
	guardedKinds
)

// listGuard is what is known of the lists of one kind.
type listGuard struct {
	looks guard.Looks
	// since is when something began to be kept; zero when nothing is.
	since time.Time
	// again is when another list is to be read; zero when none is.
	again time.Time
	// empty and read are about the last list.
	empty bool
	read  time.Time
}

func newProtection(m *Member) *protection {
	p := &protection{m: m, written: map[writtenKey]time.Time{}, seen: time.Now()}
	p.configure(m.spec.cluster)
	return p
}

// configure takes in an edited configuration.
func (p *protection) configure(c config.Cluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = limitsOf(c)
	p.staleFor = c.StaleAfter.Value()
	p.most.Store(int64(c.MaxObjects))
}

func limitsOf(c config.Cluster) guard.Limits {
	g := c.Guard
	return guard.Limits{
		Lists: g.Enabled, MinEndpoints: g.MinEndpoints, Percent: g.Percent, ConfirmPercent: g.ConfirmPercent,
		ConfirmAfter: g.ConfirmAfter.Value(), PanicPercent: g.PanicPercent, HoldSilent: c.HoldSilentNodes.Value(),
	}
}

// maxObjects is how many objects of a kind are taken; 0: any number.
func (p *protection) maxObjects() int { return int(p.most.Load()) }

// protectionTick is how often time is looked at: it makes all that waits for a
// moment late by that much.
const protectionTick = 500 * time.Millisecond

// run lets time pass until ctx ends.
func (p *protection) run(ctx context.Context) {
	tick := time.NewTicker(protectionTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.tick(time.Now())
		}
	}
}

// tick lets go of what has been kept for long enough, asks for the lists that are
// due, and says what has changed.
func (p *protection) tick(now time.Time) {
	p.mu.Lock()
	dirty := p.retake(p.readiness.Tick(now, p.limits))
	p.settle()
	due := p.due(now)
	p.mu.Unlock()
	p.m.feed.live(dirty, p.m.feed.cause("Cluster", "released", now))
	p.relist(due)
	p.tell()
	p.age(now)
}

// retake takes pods anew, kept ready or let go. The caller holds mu.
func (p *protection) retake(pods []guard.PodVersion) []store.Dirty {
	var dirty []store.Dirty
	for i := range pods {
		dirty = append(dirty, p.m.store.RetakePod(&pods[i].Object)...)
	}
	return dirty
}

// settle forgets holds of which nothing is left: events have shown all of it, or
// deleted it. The caller holds mu.
func (p *protection) settle() {
	pods, services := p.m.store.Held()
	for kind, left := range [guardedKinds]int{pods, services, len(p.written)} {
		l := &p.lists[kind]
		if left > 0 || l.looks.Doubted() {
			continue
		}
		l.looks.Clear()
		l.since, l.again = time.Time{}, time.Time{}
	}
}

// due returns the kinds of which another list is to be read now, once. The caller
// holds mu.
func (p *protection) due(now time.Time) (due [guardedKinds]bool) {
	for kind := range p.lists {
		if l := &p.lists[kind]; !l.again.IsZero() && !now.Before(l.again) {
			l.again, due[kind] = time.Time{}, true
		}
	}
	if s := &p.starting; !s.again.IsZero() && !now.Before(s.again) {
		s.again, due[guardedPods], due[guardedServices] = time.Time{}, true, true
	}
	pods, services := p.m.store.Size()
	most := p.maxObjects()
	for kind, objects := range [essentialKinds]int{kindPods: pods, kindServices: services} {
		if p.overfull[kind] && (most == 0 || objects <= most-most/10) {
			p.overfull[kind], due[guardedKind(kind)] = false, true
		}
	}
	return due
}

func (p *protection) relist(due [guardedKinds]bool) {
	p.m.mu.Lock()
	ls := p.m.loops
	p.m.mu.Unlock()
	if ls == nil {
		return
	}
	if due[guardedPods] {
		ls.pods.Relist()
	}
	if due[guardedServices] {
		ls.services.Relist()
	}
	if due[guardedWritten] {
		ls.written.each(looper.Relist)
	}
}

// age finds out whether the member has been out of sight for too long.
func (p *protection) age(now time.Time) {
	up := p.m.health.state().Up()
	p.mu.Lock()
	if up {
		p.seen = now
	}
	stale := p.staleFor > 0 && now.Sub(p.seen) >= p.staleFor
	p.mu.Unlock()
	if p.stale.Swap(stale) == stale {
		return
	}
	if stale {
		p.m.log.Warn("cluster has been out of sight for too long: other members' endpoints are preferred")
	} else {
		p.m.log.Info("cluster is in sight again")
	}
	if p.m.opts.Changed != nil {
		p.m.opts.Changed(p.m.name)
	}
}

// pod returns a pod as the store has it, or nil.
func (p *protection) pod(key syncer.Key) *syncer.Pod { return p.m.store.Pod(key) }

var _ guard.World = (*store.Store)(nil)
