// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"time"

	"tributary.dev/tributary/clusters/guard"
	"tributary.dev/tributary/syncer"
)

// errShrunk is a member whose first lists show next to nothing of what stands.
var errShrunk = errors.New("the cluster shows next to nothing of what it had")

// firstLists judges the first complete lists of a member against what stands of it in
// the ingress cluster from before this process: an empty answer at that moment
// would otherwise empty everything. Until they are believed the member counts as
// not read, so that what stands stays.
type firstLists struct {
	// standing are the ready endpoints of the member by replica; nil before they
	// were asked for.
	standing map[syncer.Key]int
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
	p.mu.Lock()
	ask := p.starting.standing == nil && p.m.opts.Standing != nil
	p.mu.Unlock()
	var standing map[syncer.Key]int
	if ask {
		standing = p.m.opts.Standing(p.m.name)
	}
	p.mu.Lock()
	if ask {
		p.starting.standing = standing
	}
	err := p.judgeStart(now)
	p.mu.Unlock()
	p.m.health.note(func(f *facts) { f.shrunk = err })
	return err == nil
}

// judgeStart returns why the first lists are not believed. The caller holds mu.
func (p *protection) judgeStart(now time.Time) error {
	s := &p.starting
	x := p.missing(s.standing)
	v := p.limits.JudgeStart(x)
	if s.accepted || v == guard.Pass || v == guard.Confirm && p.confirmsStart() {
		if !s.since.IsZero() {
			p.m.log.Info("first lists of cluster are believed", "released", s.accepted, "missing", x.Lost)
		}
		p.starting = firstLists{accepted: true}
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
func (p *protection) missing(standing map[syncer.Key]int) guard.Loss {
	x := guard.Loss{Empty: p.lists[guardedPods].empty || p.lists[guardedServices].empty}
	for replica, n := range standing {
		have, known := p.m.store.ReadyEndpoints(replica)
		if !known {
			continue // hand-written, and read later
		}
		x.Before += n
		x.Lost += max(0, n-have)
		if n > 0 && have == 0 {
			x.Emptied++
		}
	}
	return x
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
