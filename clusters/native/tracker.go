// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/syncer"
)

// Tracker holds the two views of each Service of one member. It is not safe for
// concurrent use: its owner serialises the calls. Memory is bounded by the
// Services that either side knows.
type Tracker struct {
	services map[syncer.Key]*pair
	// listed is true once all of theirs was listed: before that, nothing follows from
	// what is not known of theirs.
	listed bool
	// seen is since when both sides have been followed without a gap.
	seen time.Time
}

// pair is one Service as both sides see it. differ is since when theirs is not
// what ours leads to; zero while it is.
type pair struct {
	ours               Expected
	theirs             Addresses
	hasOurs, hasTheirs bool
	differ             time.Time
	oursFirst          bool
}

// NewTracker returns a Tracker that knows nothing.
func NewTracker() *Tracker { return &Tracker{services: map[syncer.Key]*pair{}} }

// See says that both sides are followed again, without a gap from the given time
// on. How long one had waited for the other before that is not known.
func (t *Tracker) See(at time.Time) { t.seen = at }

// Ours records what Tributary computed, from an event that arrived at the given
// time; present is false when the Service is gone or not to be compared. late is as
// for Theirs: what we computed from an event may come here after their reaction
// to it.
func (t *Tracker) Ours(key syncer.Key, expected Expected, present bool, at time.Time) (late time.Duration, measured bool) {
	p := t.of(key)
	if p.hasOurs == present && p.ours.equal(expected) {
		t.forget(key, p)
		return 0, false
	}
	since, theirs := p.differ, !p.oursFirst
	p.ours, p.hasOurs = expected, present
	t.settle(key, p, at, true)
	if since.IsZero() || !p.differ.IsZero() || !theirs || !present || at.After(since) || at.Before(t.seen) {
		return 0, false
	}
	return since.Sub(at), true
}

// Theirs records what the member's own controller wrote, as its watch showed it
// at the given time. late is how long ours had been computed before theirs said
// the same; measured is false when there is nothing to compare: the two already
// agreed, theirs was the first to change, or it may have followed unseen.
func (t *Tracker) Theirs(key syncer.Key, addresses Addresses, present bool, at time.Time) (late time.Duration, measured bool) {
	p := t.of(key)
	if p.hasTheirs == present && slices.Equal(p.theirs, addresses) {
		t.forget(key, p)
		return 0, false
	}
	since, ours := p.differ, p.oursFirst
	p.theirs, p.hasTheirs = addresses, present
	t.settle(key, p, at, false)
	if since.IsZero() || !p.differ.IsZero() || !ours || since.Before(t.seen) {
		return 0, false
	}
	return max(0, at.Sub(since)), true
}

// Replace records a complete list of theirs in a namespace, or in all for "", read at the given time.
// What a list shows has no time of its own, so nothing is measured by it. With the first one
// the comparison begins: what differs then waits for theirs.
func (t *Tracker) Replace(in string, list map[syncer.Key]Addresses, at time.Time) {
	for key, addresses := range list {
		t.Theirs(key, addresses, true, at)
	}
	first := !t.listed
	t.listed = true
	for key, p := range t.services {
		if _, present := list[key]; !present && (in == "" || in == key.Namespace) {
			t.Theirs(key, nil, false, at)
		}
		if first {
			t.settle(key, p, at, true)
		}
	}
}

func (t *Tracker) of(key syncer.Key) *pair {
	p := t.services[key]
	if p == nil {
		p = &pair{}
		t.services[key] = p
	}
	return p
}

// forget drops a Service that neither side knows.
func (t *Tracker) forget(key syncer.Key, p *pair) {
	if !p.hasOurs && !p.hasTheirs {
		delete(t.services, key)
	}
}

// settle notes whether both sides agree now. byUs says whose change this was:
// only a difference that we began is a lag of theirs.
func (t *Tracker) settle(key syncer.Key, p *pair, at time.Time, byUs bool) {
	t.forget(key, p)
	switch {
	case !t.listed || p.agree():
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
	return p.ours.metBy(p.theirs) && (p.hasTheirs || len(p.ours.Addresses) == 0)
}

// since is from when on the two sides have been seen to differ.
func (t *Tracker) since(p *pair) time.Time {
	if p.differ.Before(t.seen) {
		return t.seen
	}
	return p.differ
}

// Disagreements lists Services whose two sides have differed since before the
// given time, oldest first.
func (t *Tracker) Disagreements(before time.Time) (out []metrics.NativeDifference) {
	for key, p := range t.services {
		if !p.differ.IsZero() && t.since(p).Before(before) {
			out = append(out, metrics.NativeDifference{Namespace: key.Namespace, Service: key.Name, Since: t.since(p), Ours: p.ours.Addresses, Theirs: p.theirs})
		}
	}
	slices.SortFunc(out, func(a, b metrics.NativeDifference) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service))
	})
	return out
}

// Behind is how long the oldest change of ours has been waiting for theirs; 0
// when none has.
func (t *Tracker) Behind(now time.Time) time.Duration {
	var most time.Duration
	for _, p := range t.services {
		if !p.differ.IsZero() && p.oursFirst {
			most = max(most, now.Sub(t.since(p)))
		}
	}
	return most
}
