// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/config"
	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// errShrunk is a member whose first lists lack too much of what stands.
var errShrunk = errors.New("the cluster lacks too much of what it had")

// firstLists judges the first complete lists of a member against what stands of it in
// the ingress cluster from before this process: an empty answer at that moment
// would otherwise empty everything. Until they are believed the member counts as
// not read, so that what stands stays.
type firstLists struct {
	// standing are the ready endpoints of the member by replica; nil before they
	// were asked for. Once the lists are believed, those are left whose hand-written
	// endpoints have yet to be read.
	standing map[syncer.Key]Standing
	verdict  guard.Verdict
	// since is when the verdict was first given; looks counts how often.
	since time.Time
	looks int
	// again is when they are to be read again; zero when they are not.
	again    time.Time
	accepted bool
}

// startLimit bounds the time between two looks.
const startLimit = time.Minute

// begin reports whether what was listed may be used. It is called after each
// list until it says so.
func (p *protection) begin(now time.Time) bool {
	p.recall()
	p.mu.Lock()
	p.remember(now)
	err := p.judgeStart(now)
	p.mu.Unlock()
	p.m.health.note(func(f *facts) { f.shrunk = err })
	return err == nil
}

// recall asks, once, what stands of the member.
func (p *protection) recall() {
	p.mu.Lock()
	ask := p.starting.standing == nil && !p.starting.accepted && p.m.opts.Standing != nil
	p.mu.Unlock()
	if !ask {
		return
	}
	standing := p.m.opts.Standing(p.m.name)
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := &p.starting; s.standing == nil && !s.accepted {
		s.standing = standing
	}
}

// judgeStart returns why the first lists are not believed. The caller holds mu.
func (p *protection) judgeStart(now time.Time) error {
	s := &p.starting
	x := p.missing()
	v := p.limits.JudgeStart(x)
	if s.accepted || v == guard.Pass || v == guard.Confirm && p.confirmsStart() {
		if !s.since.IsZero() {
			p.m.log.Info("first lists of cluster are believed", "released", s.accepted, "missing", x.Lost)
		}
		p.starting = firstLists{accepted: true, standing: p.unread()}
		return nil
	}
	if s.verdict != v {
		s.verdict, s.since, s.looks = v, now, 0
	}
	if s.again = s.since.Add(p.limits.ConfirmAfter); v == guard.Hold || !s.again.After(now) {
		s.again = now.Add(min(p.limits.ConfirmAfter<<min(s.looks, 10), startLimit))
	}
	s.looks++
	return fmt.Errorf("%w: %d of %d ready endpoints that stand in the ingress cluster are missing", errShrunk, x.Lost, x.Before)
}

// missing compares the lists with what stands. The caller holds mu.
func (p *protection) missing() guard.Loss {
	x := guard.Loss{Empty: p.lists[guardedPods].empty || p.lists[guardedServices].empty}
	namespaces := p.m.currentSpec().cluster.Namespaces
	for replica, s := range p.starting.standing {
		have := p.present(replica, s, namespaces)
		if !have.wanted || !have.known {
			continue // not known: judgeWritten looks at them when they are read
		}
		x.Before += len(s.Ready)
		x.Lost += max(0, len(s.Ready)-have.ready)
		if len(s.Ready) > 0 && have.ready == 0 {
			x.Emptied++
		}
	}
	return x
}

// presence is what the Services behind a replica that stands have in the member now,
// wherever they are placed: an edit of the configuration while nobody was running is
// no loss, and what is lost at its source is one wherever it would have gone.
type presence struct {
	ready int
	// known is false while hand-written endpoints have not been read.
	known bool
	// wanted is false if the configuration, or the Services themselves, say that none
	// of them is replicated.
	wanted bool
}

// present looks for the sources of a replica that stands. The caller holds mu.
func (p *protection) present(replica syncer.Key, s Standing, namespaces config.Namespaces) presence {
	out := presence{known: true}
	for _, source := range p.sources(replica, s) {
		src, listed := p.m.store.Source(source)
		switch {
		case !listed:
			out.wanted = out.wanted || namespaces.Match(source.Namespace)
		case src.Placed:
			out.wanted = true
			out.ready += src.Ready
			out.known = out.known && src.Known
		}
	}
	return out
}

// sources are the Services that fed a replica that stands, and those that do now. The
// caller holds mu.
func (p *protection) sources(replica syncer.Key, s Standing) []syncer.Key {
	sources := p.m.store.Sources(replica)
	for _, source := range s.Sources {
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	return sources
}

// remember makes pods that are listed as not ready and stand as ready count as pods
// that turn not ready now: a panic, or a hold for a silent node, outlasts the process.
// The caller holds mu.
func (p *protection) remember(now time.Time) {
	if p.starting.accepted {
		return // by hand: the pods are to be taken as they are
	}
	turned := map[syncer.Key]guard.PodVersion{}
	for replica, s := range p.starting.standing {
		for _, source := range p.sources(replica, s) {
			for _, v := range p.m.store.NotReady(source) {
				if s.has(&v.Object) {
					turned[v.Object.Key] = v
				}
			}
		}
	}
	pods := slices.SortedFunc(maps.Values(turned), func(a, b guard.PodVersion) int { return a.Object.Key.Compare(b.Object.Key) })
	p.retake(p.readiness.Remember(now, p.limits, p.m.store, pods))
}

// unread is what stands of replicas whose hand-written endpoints have not been
// read. The caller holds mu.
func (p *protection) unread() map[syncer.Key]Standing {
	left := map[syncer.Key]Standing{}
	for replica, s := range p.starting.standing {
		if _, known := p.m.store.ReadyEndpoints(replica); !known {
			left[replica] = s
		}
	}
	return left
}

// confirmsStart reports whether both kinds have been listed again since the first
// look. The caller holds mu.
func (p *protection) confirmsStart() bool {
	s := &p.starting
	if s.verdict != guard.Confirm {
		return false
	}
	from := s.since.Add(p.limits.ConfirmAfter)
	return !p.lists[guardedPods].read.Before(from) && !p.lists[guardedServices].read.Before(from)
}

// firstOf is the key of a Service whose first hand-written endpoints are not
// believed.
func firstOf(service syncer.Key) writtenKey {
	return writtenKey{store.WrittenObject{Service: service}, true}
}

// judgeWritten compares the first hand-written endpoints of Services, as a list
// shows them, with what stands, and returns the Services that are to be read once
// more before they are believed. The caller holds mu.
func (p *protection) judgeWritten(now time.Time, r *store.WrittenReplacement) (withheld map[syncer.Key]bool) {
	standing := p.starting.standing
	x := guard.Loss{Before: r.Ready, Empty: r.Ready == 0}
	for _, f := range r.First {
		lost := max(0, len(standing[f.Replica].Ready)-f.Ready)
		x.Lost += lost
		x.Before += lost
	}
	v := p.limits.JudgeStart(x)
	withheld = map[syncer.Key]bool{}
	for _, f := range r.First {
		key := firstOf(f.Service)
		since, before := p.written[key]
		confirmed := v == guard.Confirm && before && now.Sub(since) >= p.limits.ConfirmAfter
		if len(standing[f.Replica].Ready) <= f.Ready || v == guard.Pass || confirmed {
			delete(p.written, key)
			delete(standing, f.Replica)
			continue
		}
		if !before {
			since, p.written[key] = now, now
		}
		withheld[f.Service] = true
		wait := min(max(now.Sub(since), p.limits.ConfirmAfter), startLimit)
		p.lists[guardedWritten].sooner(now, now.Add(wait))
	}
	return withheld
}
