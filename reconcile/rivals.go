// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/cache"
	"tributary.dev/tributary/reconcile/plan"
	"tributary.dev/tributary/syncer"
)

// rivals knows what other processes of this installation write: the leader before this one
// or, where two lead by Leases in different namespaces, the other. Such a process may know
// more than this one, which has perhaps just been woken. So what it took away is not put
// back before rivalPause has passed, and what it gave is not taken away within rivalGrace:
// until then the members tell. All methods are safe for concurrent use.
type rivals struct {
	mu sync.Mutex
	// since is from when another's writes are reported; zero while this process does not
	// lead. contested holds the last of them of each replica.
	since     time.Time
	contested map[syncer.Key]time.Time
	// quiet fires when nothing was seen for rivalWindow.
	quiet *time.Timer
	// disputes are by replica what another did and this process has not agreed to since.
	disputes map[syncer.Key]*dispute
	// awake is when this process was last seen to run, woken when it had been stopped.
	awake, woken time.Time
}

// dispute is when another process took or gave addresses of a replica.
type dispute struct{ took, gave map[netip.Addr]time.Time }

const (
	// rivalGrace is how long the watch may still bring what a former leader wrote, and who
	// was stopped may lag behind. Nothing that may be dead is kept for longer.
	rivalGrace = 15 * time.Second
	// rivalPause is long enough for every watch to bring an event or a bookmark.
	rivalPause  = time.Minute
	rivalWindow = 10 * time.Minute
	// wakeEvery and stoppedFor tell a process that was stopped from a busy one.
	wakeEvery  = time.Second
	stoppedFor = 5 * time.Second
)

// begin begins to lead. What the leader before it did is not disputed, for that one does not
// write any more: the members say what is to be. Only who was stopped just now, and leads at
// once by a Lease of its own, goes on minding what it missed.
func (v *rivals) begin(now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lockedWake(now)
	if v.woken.IsZero() || now.Sub(v.woken) >= stoppedFor {
		clear(v.disputes)
	}
	v.since, v.contested = now.Add(rivalGrace), map[syncer.Key]time.Time{}
}

func (v *rivals) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since = time.Time{}
	if v.quiet != nil {
		v.quiet.Stop()
	}
}

// tick shows until ctx is done that this process runs.
func (v *rivals) tick(ctx context.Context) {
	ticker := time.NewTicker(wakeEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		v.mu.Lock()
		v.lockedWake(time.Now())
		v.mu.Unlock()
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// lockedWake notes a gap, by whichever clock shows it: the monotonic one stands still
// while a machine sleeps.
func (v *rivals) lockedWake(now time.Time) {
	if gap := max(now.Sub(v.awake), now.Round(0).Sub(v.awake.Round(0))); !v.awake.IsZero() && gap > stoppedFor {
		v.woken = now
	}
	v.awake = now
}

// saw notes what another process did, and reports whether it is news that there is one.
// Deletions carry no name: they are another's while there is one, and after a stop. calm is called
// when nothing was seen for long.
func (v *rivals) saw(c *cache.Change, now time.Time, calm func()) (fresh bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lockedWake(now)
	if c.Deleted && len(v.contested) == 0 && (v.woken.IsZero() || now.Sub(v.woken) > rivalGrace) {
		return false
	}
	v.lockedDispute(c.Replica, c.Effect, now)
	if c.Deleted || v.since.IsZero() || now.Before(v.since) {
		return false
	}
	fresh = len(v.contested) == 0
	v.contested[c.Replica] = now
	if v.quiet == nil {
		v.quiet = time.AfterFunc(rivalWindow, calm)
	} else {
		v.quiet.Reset(rivalWindow)
	}
	return fresh
}

func (v *rivals) lockedDispute(replica syncer.Key, e plan.Effect, now time.Time) {
	d := v.disputes[replica]
	if d == nil {
		if len(e.Takes)+len(e.Gives) == 0 {
			return
		}
		d = &dispute{map[netip.Addr]time.Time{}, map[netip.Addr]time.Time{}}
		if v.disputes == nil {
			v.disputes = map[syncer.Key]*dispute{}
		}
		v.disputes[replica] = d
	}
	for _, addr := range e.Takes {
		d.took[addr] = now
	}
	for _, addr := range e.Gives {
		d.gave[addr] = now
	}
}

// disputed returns what a plan would undo of another's recent writes: what it would put
// back, and take away. What it does not undo is agreed to, and forgotten. So is what was
// taken away, once whatever a member said before has come, if it has told since that the
// address is ready.
func (v *rivals) disputed(replica syncer.Key, effect func() plan.Effect, readied func(netip.Addr, time.Time) bool, now time.Time) (back, away []netip.Addr) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lockedWake(now)
	d := v.disputes[replica]
	if d == nil {
		return nil, nil
	}
	still := func(at map[netip.Addr]time.Time, pause time.Duration, undone []netip.Addr) []netip.Addr {
		maps.DeleteFunc(at, func(addr netip.Addr, since time.Time) bool {
			return now.Sub(since) >= pause || !slices.Contains(undone, addr)
		})
		return slices.Collect(maps.Keys(at))
	}
	maps.DeleteFunc(d.took, func(addr netip.Addr, since time.Time) bool {
		return now.Sub(since) >= rivalGrace && readied(addr, since)
	})
	e := effect()
	back, away = still(d.took, rivalPause, e.Gives), still(d.gave, rivalGrace, e.Takes)
	if len(back)+len(away) == 0 {
		delete(v.disputes, replica)
	}
	return back, away
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

// rival takes in that another process may have changed a replica.
func (r *Reconciler) rival(c *cache.Change) {
	fresh := r.rivals.saw(c, time.Now(), func() {
		for _, key := range r.rivals.forget() {
			r.lookAgain(key)
		}
	})
	if fresh {
		r.logger.Error(rivalMessage, "replica", c.Replica.String())
	}
}

// yield leaves out of the plan what would undo another's recent write, unless a member has
// just said the contrary: then only what is undisputed is taken away. It reports whether
// there was any.
func (r *Reconciler) yield(a *attempt, now time.Time) bool {
	told := func(addr netip.Addr, ready bool, after time.Time) bool {
		text := addr.String()
		return slices.ContainsFunc(a.item.Causes, func(c record.Cause) bool {
			return c.IP == text && c.Live && (c.State == "ready") == ready && !c.Arrival.Before(after)
		})
	}
	readied := func(addr netip.Addr, since time.Time) bool { return told(addr, true, since) }
	back, away := r.rivals.disputed(a.item.Key, a.plan.Effect, readied, now)
	away = slices.DeleteFunc(away, func(addr netip.Addr) bool { return told(addr, false, time.Time{}) })
	if len(back)+len(away) == 0 || !r.leadership.leads() {
		return false
	}
	a.plan = a.plan.TakingAway(away)
	return true
}

const rivalMessage = "another process writes under the name of this installation, by another Lease: end one of them, or give it another `instance`; see High availability in docs/operations.md"

// contested reports a replica that a rival has changed.
func (r *Reconciler) contested(a *attempt) {
	if r.rivals.has(a.item.Key) {
		a.plan.Conflicts = append(a.plan.Conflicts, plan.Conflict{Replica: a.item.Key, Reason: plan.ConflictProcess, Message: rivalMessage})
	}
}
