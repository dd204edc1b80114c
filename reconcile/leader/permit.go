// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrNotLeading is why a request was not sent: this process may not write, or may not
// any more.
var ErrNotLeading = errors.New("this process does not lead: it writes nothing")

// Permit is the right to write to the ingress cluster until a moment. It has passed when
// either clock says so: the monotonic one cannot be set, but stands still while a machine
// sleeps. The zero value permits nothing. All methods are safe for concurrent use.
type Permit struct {
	mu sync.Mutex
	// until is when it ends, wall the same by the wall clock alone; zero: it is not held.
	// alone: it has no end.
	until, wall time.Time
	alone       bool
	// term is true while it may be given.
	term bool
	// reign is done when the Permit is revoked; nil while it is not held.
	reign context.Context
	end   context.CancelFunc
	// conns are the connections that bytes go through; see conn.go.
	conns map[*conn]struct{}
	// fenced receives what the API server says when it refuses a writer that does not
	// hold the Lease.
	fenced chan string
}

// open begins a term: from now on the Permit may be extended, until it is revoked.
func (p *Permit) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term = true
}

// extend holds the Permit until a moment, if that is later than it is held already. Out
// of term it does nothing: what is acknowledged late gives nothing back.
func (p *Permit) extend(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.term {
		return
	}
	p.lockedHold()
	if until.After(p.until) {
		p.until, p.wall = until, until.Round(0)
	}
}

// holdAlone holds the Permit until it is revoked.
func (p *Permit) holdAlone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lockedHold()
	p.alone = true
}

func (p *Permit) lockedHold() {
	if p.reign == nil {
		p.reign, p.end = context.WithCancel(context.Background())
	}
}

// Revoke ends the Permit. Requests under way are given up, and bytes of them that were
// not sent yet never are. A second call does nothing.
func (p *Permit) Revoke() {
	p.mu.Lock()
	end, conns := p.end, p.conns
	p.term = false
	if end == nil {
		p.mu.Unlock()
		return
	}
	p.end, p.conns = nil, nil
	p.mu.Unlock()
	end()
	for c := range conns {
		c.abort()
	}
	// Only now a connection that was still written to counts as one for reading.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		p.reign, p.until, p.wall, p.alone = nil, time.Time{}, time.Time{}, false
	}
}

// MayWrite reports whether the Permit is held now.
func (p *Permit) MayWrite() bool {
	_, _, held := p.held()
	return held
}

// held returns until when the Permit is held, zero for no end, and what is done when it
// is revoked.
func (p *Permit) held() (until time.Time, reign context.Context, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reign == nil || p.lockedOver() {
		return time.Time{}, nil, false
	}
	if p.alone {
		return time.Time{}, p.reign, true
	}
	return p.until, p.reign, true
}

// lapsed reports whether the Permit was held, and has ended by time or by Revoke, which
// is not done yet.
func (p *Permit) lapsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reign != nil && p.lockedOver()
}

// lockedOver reports whether a reign has ended.
func (p *Permit) lockedOver() bool {
	now := time.Now()
	return p.reign.Err() != nil || !p.alone && (!now.Before(p.until) || !now.Before(p.wall))
}

// left is for how long the Permit is held; it must not be held alone.
func (p *Permit) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until)
}

// refusedAsStranger passes on that the API server refused a write because another
// process holds the Lease.
func (p *Permit) refusedAsStranger(message string) {
	p.mu.Lock()
	fenced := p.lockedFenced()
	p.mu.Unlock()
	select {
	case fenced <- message:
	default:
	}
}

func (p *Permit) lockedFenced() chan string {
	if p.fenced == nil {
		p.fenced = make(chan string, 1)
	}
	return p.fenced
}

// refusals is where refusedAsStranger sends to.
func (p *Permit) refusals() <-chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lockedFenced()
}

// dial is what a rest.Config dials with.
type dial = func(ctx context.Context, network, address string) (net.Conn, error)
