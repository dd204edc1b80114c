// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"
	"time"
)

// gate stands before the queue. While the ingress cluster cannot be reached it
// lets one worker through now and then, as a probe: keys then stay in their
// lanes, and the first to be written when the cluster returns are removals.
//
// All methods are safe for concurrent use.
type gate struct {
	mu sync.Mutex
	// failures counts requests in a row that no server answered.
	failures int
	// opened is closed when the gate opens; nil while it is open.
	opened chan struct{}
	// pass holds the right of one worker to go through a closed gate.
	pass  chan struct{}
	timer *time.Timer
	delay time.Duration
	// denying is since when a server answers through the closed gate and takes
	// nothing; zero: it does not answer.
	denying time.Time
	// told is called with true when the gate closes, with false before it opens for
	// those who wait. It is called with mu held, so that no two calls change places.
	told func(closed bool)
	// rouse is called before each probe, to see to it that there is a key to try.
	rouse func()
}

const (
	// gateFailures in a row close the gate: many enough that a server which loses
	// every fifth request is not taken for one that is away.
	gateFailures = 8
	// gateFirst and gateMax bound the time between two probes.
	gateFirst = 100 * time.Millisecond
	gateMax   = time.Second
	// gateStarting is how long a server may take from its first answer to the first
	// that helps, before its refusals are the business of each key.
	gateStarting = 2 * time.Second
)

func newGate(told func(closed bool), rouse func()) *gate {
	return &gate{pass: make(chan struct{}, 1), told: told, rouse: rouse}
}

// wait returns when the caller may take a key, or ctx is done. probe: the gate is
// closed, and the caller goes through it with the only pass. It owes an answer:
// reached, denied, missed or unused.
func (g *gate) wait(ctx context.Context) (probe bool) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return false
	}
	select {
	case <-opened:
	case <-g.pass:
		return true
	case <-ctx.Done():
	}
	return false
}

// shut reports whether the gate is closed.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened != nil
}

// unused gives the pass back: the key needed no request, so nothing was learnt. The
// next worker goes at once.
func (g *gate) unused() {
	if g.shut() {
		g.probe()
	}
}

// reached says that the server answered something.
func (g *gate) reached() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures, g.denying = 0, time.Time{}
	opened := g.opened
	g.opened = nil
	if opened != nil {
		g.timer.Stop()
		g.told(false)
		close(opened)
	}
}

// denied says that the server answered, but not as one that is whole. One that has
// just started denies what it grants a moment later, when it has read its roles: to
// send it every key meanwhile would cost each of them a backoff, and its order.
func (g *gate) denied() {
	g.mu.Lock()
	now := time.Now()
	if g.opened != nil && g.denying.IsZero() {
		g.denying = now
	}
	starting := g.opened != nil && now.Sub(g.denying) < gateStarting
	if starting {
		g.delay = gateFirst
		g.lockedArm()
	}
	g.mu.Unlock()
	if !starting {
		g.reached()
	}
}

// missed says that a request was not answered. refused: there is nobody at the
// address, which needs no second opinion.
func (g *gate) missed(refused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
	g.denying = time.Time{}
	closing := g.opened == nil && (refused || g.failures >= gateFailures)
	switch {
	case closing:
		g.opened, g.delay = make(chan struct{}), gateFirst
	case g.opened != nil:
		g.delay = min(2*g.delay, gateMax)
	}
	if g.opened != nil {
		g.lockedArm()
	}
	if closing {
		g.told(true)
	}
}

func (g *gate) lockedArm() {
	if g.timer == nil {
		g.timer = time.AfterFunc(g.delay, g.probe)
		return
	}
	g.timer.Reset(g.delay)
}

func (g *gate) probe() {
	g.rouse()
	select {
	case g.pass <- struct{}{}:
	default:
	}
}

// stop ends the timer; workers that wait are released by their context.
func (g *gate) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
}
