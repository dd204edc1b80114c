// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"tributary.dev/tributary/clusters/evidence"
	"tributary.dev/tributary/clusters/kube"
	"tributary.dev/tributary/metrics"
)

// step takes an event into the member's evidence and carries out what comes of it. With
// a list it lets others read between its pieces. arrival is when the event was read off
// the wire.
func (m *Member) step(e evidence.Event, arrival time.Time) (released evidence.Released) {
	for more := true; more; {
		m.mu.Lock()
		effects := m.state.Step(time.Now(), e)
		if effects.View != nil {
			m.view.Store(effects.View)
		}
		m.outbox.add(effects, arrival)
		m.mu.Unlock()
		m.outbox.drain(m.carryOut)
		released = effects.Released
		if more = effects.More; more {
			e = evidence.Continue{Kind: kindOf(e)}
		}
	}
	return released
}

// kindOf is the kind of a list.
func kindOf(e evidence.Event) evidence.Kind {
	switch e := e.(type) {
	case evidence.Continue:
		return e.Kind
	case evidence.Listed[service]:
		return evidence.Services
	default:
		return evidence.Pods
	}
}

// outbox carries out effects in the order of the steps, outside of the member's lock:
// whoever finds nobody at it does all there is.
type outbox struct {
	mu      sync.Mutex
	waiting []sent
	busy    bool
}

type sent struct {
	effects evidence.Effects
	arrival time.Time
}

// add is called with the member's lock held, so that the order is that of the steps.
func (o *outbox) add(e evidence.Effects, arrival time.Time) {
	if e.View == nil && !e.Manual && len(e.Changes)+len(e.List)+len(e.Read)+len(e.Facts) == 0 {
		return
	}
	o.mu.Lock()
	o.waiting = append(o.waiting, sent{e, arrival})
	o.mu.Unlock()
}

func (o *outbox) drain(carryOut func(evidence.Effects, time.Time)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy {
		return
	}
	o.busy = true
	for len(o.waiting) > 0 {
		batch := o.waiting
		o.waiting = nil
		o.mu.Unlock()
		for _, s := range batch {
			carryOut(s.effects, s.arrival)
		}
		o.mu.Lock()
	}
	o.busy = false
}

// carryOut does what a step asks for. No lock is held.
func (m *Member) carryOut(e evidence.Effects, arrival time.Time) {
	if v := e.View; v != nil {
		m.native.see(v.State == Live)
		if m.opts.Changed != nil {
			m.opts.Changed(m.name)
		}
	}
	for _, c := range e.Changes {
		cause := m.cause(c.Cause, arrival)
		m.opts.Sink.Dirty(m.name, c.Dirty, cause, c.Bulk)
		if c.Cause.Kept == "" {
			m.native.touch(c.Dirty, arrival)
		} else {
			m.native.lookAt(c.Dirty)
		}
	}
	for _, kind := range e.List {
		m.list(kind)
	}
	m.reads.ask(e.Read)
	if e.Manual {
		signal(m.manualChanged)
	}
	for _, f := range e.Facts {
		m.log.Log(context.Background(), levels[f.Severity], f.Message, f.Args...)
	}
}

var levels = [...]slog.Level{evidence.Info: slog.LevelInfo, evidence.Warning: slog.LevelWarn, evidence.Error: slog.LevelError}

func (m *Member) cause(c evidence.Cause, arrival time.Time) metrics.Cause {
	return metrics.Cause{
		Cluster: m.name, Kind: c.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, UID: c.UID,
		ResourceVersion: revisionText(c.Revision), Event: c.Event, Arrival: arrival, Live: c.Live,
		State: c.State, IP: c.IP, Kept: string(c.Kept),
	}
}

// list asks for a list of a kind.
func (m *Member) list(kind evidence.Kind) {
	m.conn.Lock()
	ls := m.loops
	m.conn.Unlock()
	if ls == nil {
		return
	}
	switch kind {
	case evidence.Services:
		ls.services.Relist()
	case evidence.Pods:
		ls.pods.Relist()
	case evidence.Nodes:
		ls.nodes.each(looper.Relist)
	default:
		ls.manual.each(looper.Relist)
	}
}

// fault says what an error means for the member.
func fault(err error) evidence.Fault {
	f := evidence.Fault{Class: evidence.Unreachable, Err: err}
	switch {
	case err == nil:
		f.Class = evidence.Well
	case errors.Is(err, kube.ErrOtherCluster):
		f.Class = evidence.OtherCluster
	case errors.Is(err, errNoKubeconfig):
		f.Class = evidence.NoKubeconfig
	case errors.Is(err, kube.ErrTooManyObjects):
		f.Class = evidence.TooMany
	case errors.Is(err, kube.ErrTooLarge):
		f.Class = evidence.TooLarge
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		f.Class = evidence.Denial
	case apierrors.IsNotFound(err):
		f.Class = evidence.Missing
	}
	return f
}

// tickEvery is how often time is looked at: it makes all that waits for a moment late
// by that much.
const tickEvery = 500 * time.Millisecond

// tick lets time pass until ctx ends.
func (m *Member) tick(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.step(evidence.Tick{}, now)
		}
	}
}
