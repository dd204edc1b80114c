// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Heartbeats finds loops that do not get on, such as those in a deadlock: each says so while
// it does. All methods are safe for concurrent use; a nil *Heartbeats has none.
type Heartbeats struct {
	mu  sync.Mutex
	all map[*Heartbeat]struct{}
}

// Heartbeat is that of one loop. A nil one does nothing.
type Heartbeat struct {
	of    *Heartbeats
	name  string
	bound time.Duration
	// last is when the loop got on last; nil while it waits for something to do.
	last atomic.Pointer[time.Time]
}

// Start adds a loop that gets on at least once in bound, from now on until End.
func (h *Heartbeats) Start(name string, bound time.Duration) *Heartbeat {
	if h == nil {
		return nil
	}
	b := &Heartbeat{of: h, name: name, bound: bound}
	b.Beat()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[*Heartbeat]struct{}{}
	}
	h.all[b] = struct{}{}
	return b
}

// Beat says that the loop gets on.
func (b *Heartbeat) Beat() {
	if b != nil {
		b.last.Store(new(time.Now()))
	}
}

// Rest says that the loop waits for something to do, however long that takes.
func (b *Heartbeat) Rest() {
	if b != nil {
		b.last.Store(nil)
	}
}

// End says that the loop has ended.
func (b *Heartbeat) End() {
	if b != nil {
		b.of.mu.Lock()
		defer b.of.mu.Unlock()
		delete(b.of.all, b)
	}
}

// Stuck tells the loops that have not got on within their bounds, sorted.
func (h *Heartbeats) Stuck(now time.Time) (stuck []string) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for b := range h.all {
		if last := b.last.Load(); last != nil && now.Sub(*last) > b.bound {
			stuck = append(stuck, fmt.Sprintf("%s has not got on for more than %s", b.name, b.bound))
		}
	}
	slices.Sort(stuck)
	return slices.Compact(stuck)
}

// How often the status is put together to prove that nothing holds a lock for good, and
// how long that may take.
const (
	proveEvery = 5 * time.Second
	proveBound = 30 * time.Second
)

// Heartbeats are those that /healthz goes by.
func (m *Metrics) Heartbeats() *Heartbeats { return &m.heartbeats }

// Prove puts the status together now and then until ctx is done: it needs every lock there is.
func (m *Metrics) Prove(ctx context.Context) {
	beat := m.heartbeats.Start("the status", proveBound)
	defer beat.End()
	tick := time.NewTicker(proveEvery)
	defer tick.Stop()
	for {
		m.Brief()
		beat.Beat()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
