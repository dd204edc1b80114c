// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// rivals notices another process that writes under the name of this installation while
// this one leads: two whose Leases lie in different namespaces both do. What such a
// process changes carries our mark and record, is no echo of ours, and nobody else is on
// record for it in managedFields. All methods are safe for concurrent use.
type rivals struct {
	mu sync.Mutex
	// since is from when changes count; zero while this process does not lead.
	since time.Time
	// times are those of the last changes, oldest first; contested holds the last change
	// of each replica since they showed a rival.
	times     [rivalChanges]time.Time
	contested map[syncer.Key]time.Time
	// quiet fires when nothing was seen for rivalWindow.
	quiet *time.Timer
}

const (
	// rivalGrace is how long the watch may still bring what a former leader wrote.
	rivalGrace = 30 * time.Second
	// rivalChanges within rivalWindow show a rival: a single one may be a write of ours
	// whose answer was lost.
	rivalChanges = 3
	rivalWindow  = 10 * time.Minute
)

func (v *rivals) begin(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since, v.times, v.contested = now.Add(rivalGrace), [rivalChanges]time.Time{}, map[syncer.Key]time.Time{}
}

func (v *rivals) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since = time.Time{}
	if v.quiet != nil {
		v.quiet.Stop()
	}
}

// saw notes a change of a replica, and reports whether a rival makes it, and whether that
// is news. calm is called when nothing was seen for long.
func (v *rivals) saw(replica syncer.Key, at time.Time, calm func()) (rival, fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.since.IsZero() || at.Before(v.since) {
		return false, false
	}
	copy(v.times[:], v.times[1:])
	v.times[rivalChanges-1] = at
	if v.times[0].IsZero() || at.Sub(v.times[0]) > rivalWindow {
		return false, false
	}
	fresh = len(v.contested) == 0
	v.contested[replica] = at
	if v.quiet == nil {
		v.quiet = time.AfterFunc(rivalWindow, calm)
	} else {
		v.quiet.Reset(rivalWindow)
	}
	return true, fresh
}

// has reports whether a rival has changed a replica.
func (v *rivals) has(replica syncer.Key) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, contested := v.contested[replica]
	return contested
}

// forget ends the memory of a rival, and returns what it has changed.
func (v *rivals) forget() []syncer.Key {
	v.mu.Lock()
	defer v.mu.Unlock()
	replicas := slices.Collect(maps.Keys(v.contested))
	clear(v.contested)
	return replicas
}

// rival takes in that another process may have changed a replica as we do. What it undoes
// is put back no more than once a minute: no war is waged, and what a member changes is
// written all the same.
func (r *Reconciler) rival(replica syncer.Key, at time.Time) {
	rival, fresh := r.rivals.saw(replica, at, func() {
		for _, key := range r.rivals.forget() {
			r.lookAgain(key)
		}
	})
	if rival {
		r.throttle.Contend(replica, at)
	}
	if fresh {
		r.logger.Error(rivalMessage, "replica", replica.String())
	}
}

const rivalMessage = "another process writes under the name of this installation, by another Lease: end one of them, or give it another `instance`; see High availability in docs/operations.md"

// contested reports a replica that a rival has changed.
func (r *Reconciler) contested(a *attempt) {
	if r.rivals.has(a.item.Key) {
		a.plan.Conflicts = append(a.plan.Conflicts, plan.Conflict{Replica: a.item.Key, Reason: plan.ConflictProcess, Message: rivalMessage})
	}
}
