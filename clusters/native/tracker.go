// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"slices"
	"time"

	"tributary.dev/tributary/syncer"
)

// Tracker holds the two views of each Service of one member. It is not safe for
// concurrent use: its owner serialises the calls. Memory is bounded by the
// Services that either side knows.
type Tracker struct {
	services map[syncer.Key]*pair
}

// pair is one Service as both sides see it. differ is since when ours is not
// theirs; zero while they agree, or while theirs was never seen.
type pair struct {
	ours, theirs       Addresses
	hasOurs, hasTheirs bool
	differ             time.Time
	oursFirst          bool
}

// NewTracker returns a Tracker that knows nothing.
func NewTracker() *Tracker { return &Tracker{services: map[syncer.Key]*pair{}} }

// Ours takes what Tributary computed, from an event that arrived at the given
// time; present is false when the Service is gone. late is as for Theirs: what
// we computed from an event may be told here after their answer to it was.
func (t *Tracker) Ours(key syncer.Key, addresses Addresses, present bool, at time.Time) (late time.Duration, measured bool) {
	p := t.of(key)
	if p.hasOurs == present && p.ours.Equal(addresses) {
		return 0, false
	}
	since, theirs := p.differ, !p.oursFirst
	p.ours, p.hasOurs = addresses, present
	t.settle(key, p, at, true)
	if since.IsZero() || !p.differ.IsZero() || !theirs || !present || at.After(since) {
		return 0, false
	}
	return since.Sub(at), true
}

// Theirs takes what the member's own controller wrote, as its watch showed it
// at the given time. late is how long ours had been computed before theirs said
// the same; measured is false when there is nothing to compare: the two already
// agreed, or theirs was the first to change.
func (t *Tracker) Theirs(key syncer.Key, addresses Addresses, present bool, at time.Time) (late time.Duration, measured bool) {
	p := t.of(key)
	if p.hasTheirs == present && p.theirs.Equal(addresses) {
		return 0, false
	}
	since, ours := p.differ, p.oursFirst
	p.theirs, p.hasTheirs = addresses, present
	t.settle(key, p, at, false)
	if since.IsZero() || !p.differ.IsZero() || !ours {
		return 0, false
	}
	return max(0, at.Sub(since)), true
}

func (t *Tracker) of(key syncer.Key) *pair {
	p := t.services[key]
	if p == nil {
		p = &pair{}
		t.services[key] = p
	}
	return p
}

// settle notes whether both sides agree now. byUs says whose change this was:
// only a difference that we began is a lag of theirs.
func (t *Tracker) settle(key syncer.Key, p *pair, at time.Time, byUs bool) {
	switch {
	case !p.hasOurs && !p.hasTheirs:
		delete(t.services, key)
	case p.agree():
		p.differ, p.oursFirst = time.Time{}, false
	case p.differ.IsZero():
		p.differ, p.oursFirst = at, byUs
	}
}

// agree: a Service that has no addresses for us and no Endpoints object there is
// nothing to disagree about, and what only they have is none of ours.
func (p *pair) agree() bool {
	if !p.hasOurs {
		return true
	}
	return p.ours.Equal(p.theirs) && (p.hasTheirs || len(p.ours) == 0)
}

// Disagreement is a Service about which the two sides differ.
type Disagreement struct {
	Service      syncer.Key
	Since        time.Time
	Ours, Theirs Addresses
}

// Disagreements lists Services whose two sides have differed since before the
// given time, oldest first.
func (t *Tracker) Disagreements(before time.Time) []Disagreement {
	var out []Disagreement
	for key, p := range t.services {
		if !p.differ.IsZero() && p.differ.Before(before) {
			out = append(out, Disagreement{Service: key, Since: p.differ, Ours: p.ours, Theirs: p.theirs})
		}
	}
	slices.SortFunc(out, func(a, b Disagreement) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return a.Service.Compare(b.Service)
	})
	return out
}

// TheirKeys lists the Services of which their view is known, in no order.
func (t *Tracker) TheirKeys() []syncer.Key {
	var keys []syncer.Key
	for key, p := range t.services {
		if p.hasTheirs {
			keys = append(keys, key)
		}
	}
	return keys
}

// Behind is how long the oldest change of ours has been waiting for theirs; 0
// when none has.
func (t *Tracker) Behind(now time.Time) time.Duration {
	var most time.Duration
	for _, p := range t.services {
		if !p.differ.IsZero() && p.oursFirst {
			most = max(most, now.Sub(p.differ))
		}
	}
	return most
}
