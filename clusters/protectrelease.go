// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"time"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Released counts what a release let go.
type Released struct {
	// Pods and Services that lists lack, hand-written endpoints likewise.
	Pods, Services, Written int
	// NotReady are pods that were kept ready.
	NotReady int
	// Lists is true when first lists are believed now.
	Lists bool
}

// release lets go of what is kept for a replica, nil: for all of them. due are the
// kinds of which another list is to be read now.
func (p *protection) release(replica *syncer.Key) (out Released, dirty []store.Dirty, due [guardedKinds]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.m.store
	match := func(pod syncer.Key) bool { return replica == nil || slices.Contains(s.ReplicasOf(pod), *replica) }
	before := p.counted()
	dirty = append(dirty, s.ReleaseHeldPods(func(pod *syncer.Pod) bool { return match(pod.Key) })...)
	place := p.m.currentSpec().cluster.Place
	placed := func(svc *syncer.Service) bool {
		at, ok := place(svc)
		return replica == nil || ok && at == *replica
	}
	dirty = append(dirty, s.ReleaseHeldServices(placed)...)
	for key := range p.written {
		if svc := s.Service(key.Service); svc == nil || placed(svc) {
			dirty = append(dirty, p.releaseWritten(key)...)
		}
	}
	var pods []guard.PodVersion
	if replica == nil {
		pods = p.readiness.Release(nil)
		out.Lists = !p.starting.since.IsZero()
		p.starting.accepted = p.starting.accepted || out.Lists
	} else {
		pods = p.readiness.Release(match)
	}
	dirty = append(dirty, p.retake(pods)...)
	p.readiness.Recount(s.Pods())
	p.settle()
	if replica == nil {
		due = p.trust()
	}
	after := p.counted()
	out.Pods, out.Services, out.Written = before[0]-after[0], before[1]-after[1], before[2]-after[2]
	out.NotReady = len(pods)
	return out, dirty, due
}

// trust ends the doubt about a member that went back in time: the next lists are
// judged as any other. It returns the kinds that were doubted, of which nothing has
// been taken in yet. The caller holds mu.
func (p *protection) trust() (doubted [guardedKinds]bool) {
	for kind := range p.lists {
		if l := &p.lists[kind]; l.looks.Doubted() {
			l.looks.Trust()
			doubted[kind] = true
		}
	}
	return doubted
}

func (p *protection) counted() [guardedKinds]int {
	pods, services := p.m.store.Held()
	return [guardedKinds]int{pods, services, len(p.written)}
}

// Release lets go of what is kept for a member although it seems to have lost
// it: for one replica, or with nil for all of them; then a panic ends too, and
// first lists that were not believed are. ok is false if there is no such member.
func (s *Set) Release(cluster string, replica *syncer.Key) (out Released, ok bool) {
	for _, m := range *s.members.Load() {
		if m.name == cluster {
			return m.release(replica), true
		}
	}
	return Released{}, false
}

func (m *Member) release(replica *syncer.Key) Released {
	now := time.Now()
	out, dirty, due := m.protect.release(replica)
	m.log.Warn("what was kept for cluster is released by hand", "pods", out.Pods, "services", out.Services,
		"written", out.Written, "notReady", out.NotReady, "firstLists", out.Lists, "replica", replicaText(replica))
	cause := metrics.Cause{Cluster: m.name, Kind: "Cluster", Event: "released", Arrival: now}
	m.feed.live(dirty, cause)
	m.protect.relist(due)
	if out.Lists {
		m.feed.begin(now)
	}
	m.protect.tell()
	return out
}

func replicaText(replica *syncer.Key) string {
	if replica == nil {
		return "all"
	}
	return replica.String()
}
