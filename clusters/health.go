// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// health keeps a member's facts and says so when its state changes. Safe for
// concurrent use.
type health struct {
	log *slog.Logger
	// changed is called without the lock; nil is not called.
	changed func()
	// contact is the last contact in nanoseconds after start: each event writes it.
	start   time.Time
	contact atomic.Int64
	synced  atomic.Bool // a copy of facts.synced that costs no lock

	mu      sync.Mutex
	facts   facts
	now     verdict
	since   time.Time
	lastErr error
	errAt   time.Time
	remarks map[string]string
}

func newHealth(log *slog.Logger, changed func()) *health {
	now := time.Now()
	return &health{log: log, changed: changed, start: now, now: verdict{state: Connecting}, since: now, remarks: map[string]string{}}
}

// heard notes a contact at a moment.
func (h *health) heard(at time.Time) {
	ns := max(1, int64(at.Sub(h.start)))
	for {
		last := h.contact.Load()
		if ns <= last || h.contact.CompareAndSwap(last, ns) {
			return
		}
	}
}

// lastContact is zero when there was none.
func (h *health) lastContact() time.Time {
	if ns := h.contact.Load(); ns != 0 {
		return h.start.Add(time.Duration(ns))
	}
	return time.Time{}
}

// note changes the facts, nil leaves them, and judges anew.
func (h *health) note(change func(*facts)) {
	h.mu.Lock()
	if change != nil {
		change(&h.facts)
	}
	h.facts.contact = h.lastContact()
	h.synced.Store(h.facts.synced)
	now := time.Now()
	before, after := h.now, h.facts.judge(now)
	if after.err != nil {
		h.lastErr, h.errAt = after.err, now
	}
	differs := before.state != after.state || before.reason != after.reason
	if differs {
		h.since = now
	}
	h.now = after
	h.mu.Unlock()
	if !differs {
		return
	}
	h.say(before, after)
	if h.changed != nil {
		h.changed()
	}
}

func (h *health) say(before, after verdict) {
	level := slog.LevelInfo
	if !after.state.Up() && after.state != Connecting && after.state != Stopped || after.reason != ReasonNone {
		level = slog.LevelWarn
	}
	args := []any{"from", before.state, "to", after.state}
	if after.reason != ReasonNone {
		args = append(args, "reason", after.reason)
	}
	if after.err != nil {
		args = append(args, "error", after.err)
	}
	h.log.Log(context.Background(), level, "cluster changed state", args...)
}

// fill puts the verdict of this moment and the last error into a status.
func (h *health) fill(s *Status) {
	h.note(nil) // silence is a matter of time, not of news
	h.mu.Lock()
	defer h.mu.Unlock()
	s.State, s.Reason, s.Since, s.Synced = h.now.state, h.now.reason, h.since, h.facts.synced
	s.LastError, s.LastErrorAt = h.lastErr, h.errAt
}

// state judges now: silence is a matter of time, not of news.
func (h *health) state() State {
	h.note(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now.state
}

// remark keeps what is wrong with a resource that the member can do without; ""
// takes it back.
func (h *health) remark(resource, text string) {
	h.mu.Lock()
	news := h.remarks[resource] != text
	if text == "" {
		delete(h.remarks, resource)
	} else {
		h.remarks[resource] = text
	}
	h.mu.Unlock()
	if news {
		h.log.Info("cluster is read in part", "resource", resource, "remark", cmp.Or(text, "can be read"))
	}
}

// unremark drops a remark about what is not asked for any more.
func (h *health) unremark(resource string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.remarks, resource)
}

// remarked returns the remarks, sorted.
func (h *health) remarked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(h.remarks)) {
		all = append(all, resource+" "+h.remarks[resource])
	}
	return all
}
