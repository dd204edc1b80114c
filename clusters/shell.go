// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// shell keeps a member's evidence behind the one lock that a member has, and has what a
// step asks for carried out when it is unlocked. It knows nobody who uses it.
type shell struct {
	// view is how the member stands, for those who must not wait.
	view atomic.Pointer[evidence.View]
	// damped counts the endpoints that wait to be stable, for those who must not wait.
	damped atomic.Int64
	// carryOut is called with no lock held, by one goroutine at a time and in the order
	// of the steps.
	carryOut func(evidence.Effects, time.Time)
	// keepFor is told which rules are to be, and which others some Service goes by, and says
	// since when what the first need is kept of all that is decoded. It is called with the
	// lock held.
	keepFor func(wanted store.Decider, others []store.Decider) store.KeptSince

	// work is sent to, without blocking, while there is work left on rules.
	work chan struct{}

	mu    sync.RWMutex // of all below, and of what follows the member
	state *evidence.State
	// waiting are effects to be carried out; carrying: somebody is at it. spare is room
	// for those that come meanwhile (BenchmarkPodEvent).
	waiting, spare []effects
	carrying       bool
}

// effects are those of one step. arrival is when its event was read off the wire.
type effects struct {
	evidence.Effects
	arrival time.Time
}

func newShell(c evidence.Config, dice uint64, carryOut func(evidence.Effects, time.Time), keepFor func(wanted store.Decider, others []store.Decider) store.KeptSince) *shell {
	c.KeptSince = keepFor(c.Decider, nil)
	s := &shell{state: evidence.New(time.Now(), c, dice), carryOut: carryOut, keepFor: keepFor, work: make(chan struct{}, 1)}
	view := s.state.View()
	s.view.Store(&view)
	return s
}

// step takes an event into the evidence and carries out what comes of it. With a list it
// lets others read between its pieces.
func (s *shell) step(e evidence.Event, arrival time.Time) (released evidence.Released) {
	for e != nil {
		s.mu.Lock()
		if c, ok := e.(evidence.Configured); ok {
			c.KeptSince = s.keepFor(c.Decider, s.state.Store().Deciders())
			e = c
		}
		out := s.state.Step(time.Now(), e)
		if out.Rules { // what only the former ones needed is not kept any more
			_, wanted := s.state.Deciders()
			s.keepFor(wanted, s.state.Store().Deciders())
		}
		if out.View != nil {
			s.view.Store(out.View)
		}
		s.damped.Store(int64(s.state.Waiting()))
		if out.View != nil || out.Manual || len(out.Alone)+len(out.Changes)+len(out.List)+len(out.Read)+len(out.Facts) > 0 {
			s.waiting = append(s.waiting, effects{out, arrival})
		}
		s.lockedCarryOut()
		s.mu.Unlock()
		if out.Work {
			signal(s.work)
		}
		released, e = out.Released, out.Next
	}
	return released
}

// lockedCarryOut unlocks to carry out what waits: whoever finds nobody at it does all
// there is.
func (s *shell) lockedCarryOut() {
	if s.carrying {
		return
	}
	s.carrying = true
	for len(s.waiting) > 0 {
		batch := s.waiting
		s.waiting, s.spare = s.spare, nil
		s.mu.Unlock()
		for i := range batch {
			s.carryOut(batch[i].Effects, batch[i].arrival)
		}
		s.mu.Lock()
		s.state.Reuse(batch[0].Effects)
		clear(batch)
		s.spare = batch[:0]
	}
	s.carrying = false
}

// tickEvery is how often time is looked at: it makes all that waits for a moment late
// by that much.
const tickEvery = 500 * time.Millisecond

// tick lets time pass until ctx ends, and works on rules meanwhile: no watch waits for that.
func (s *shell) tick(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.step(evidence.Tick{}, now)
		case <-s.work:
			s.step(evidence.Enforce{}, time.Now())
		}
	}
}

// synced reports whether the member has been read whole.
func (s *shell) synced() bool { return s.view.Load().Synced }

// share is what the member gives to a replica, and how it stands at that moment.
func (s *shell) share(replica syncer.Key) (evidence.Share, evidence.View) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Share(replica), *s.view.Load()
}

// keeps reports whether anything is kept that the member does not show.
func (s *shell) keeps() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Keeps()
}

// isBlind reports whether the member was read whole, and what it does since is not seen.
func (s *shell) isBlind() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.LostSight(time.Now())
}

// replicas are those that the member contributes to, or that something of it is kept in.
func (s *shell) replicas() []syncer.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return append(s.state.Store().Replicas(), s.state.BaselineReplicas()...)
}

// waits reports whether an endpoint waits to return to a replica, givesReady whether the
// member gives it a ready one.
func (s *shell) waits(replica syncer.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Waits(replica)
}

func (s *shell) givesReady(replica syncer.Key) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.GivesReady(replica)
}

// sources are the Services behind replicas.
func (s *shell) sources(replicas ...syncer.Key) (services []syncer.Key) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, replica := range replicas {
		services = append(services, s.state.Store().Sources(replica)...)
	}
	return services
}

// manualSources are the Services whose endpoints are written by hand; see ManualSources.
func (s *shell) manualSources() map[syncer.Key]uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Store().ManualSources()
}

// reported returns a Service with its pods as the member reports them, without what is
// overridden here; ok is false for one without selector.
func (s *shell) reported(service syncer.Key) (shown store.Reported, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if shown, ok = s.state.Store().Reported(service); ok && !shown.Held {
		s.state.Reported(shown.Pods)
	}
	return shown, ok
}

// dirtyReplicas are the replicas of a list, each once.
func dirtyReplicas(dirty []store.Dirty) (replicas []syncer.Key) {
	for _, d := range dirty {
		replicas = append(replicas, d.Replica)
	}
	slices.SortFunc(replicas, syncer.Key.Compare)
	return slices.Compact(replicas)
}
