// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// longestClaim bounds what another's Lease is believed, whatever somebody wrote there.
const longestClaim = 10 * time.Minute

// Record is what the Lease says.
type Record = resourcelock.LeaderElectionRecord

// Term is the arithmetic of an election: from what was seen and written it computes when
// this process may write and when it may take the Lease. It is a value that reads no clock.
type Term struct {
	// Identity is this process's, Lease after how long others take one that is not renewed.
	Identity string
	Lease    time.Duration

	// seen is what another one wrote last, claimed until when it may count on that.
	seen    Record
	claimed time.Time
}

// RenewDeadline is for how long the holder writes after the last renewal that was acknowledged.
// What remains of the Lease is for clocks that run at different speeds.
func (t *Term) RenewDeadline() time.Duration { return t.Lease * 2 / 3 }

// Renewed returns until when this process may write after a write of the Lease was acknowledged. That
// counts from before the request was sent: others count from after it was stored.
func (t *Term) Renewed(sent time.Time) (until time.Time) {
	return sent.Add(t.RenewDeadline())
}

// Saw records what the Lease says.
func (t *Term) Saw(now time.Time, r *Record) {
	released := r.HolderIdentity == "" && r.LeaseDurationSeconds == 1 && r.RenewTime.Equal(&r.AcquireTime)
	switch {
	case released || r.HolderIdentity == t.Identity:
		t.claimed = time.Time{}
	case r.HolderIdentity != "" && *r != t.seen:
		t.seen, t.claimed = *r, now.Add(max(t.Lease, min(longestClaim, time.Duration(r.LeaseDurationSeconds)*time.Second)))
	}
}

// MayTake reports whether nobody else can count on the Lease any more. One that was deleted, or
// whose holder was removed by hand, is not free before it would have run out: its holder
// writes until it notices.
func (t *Term) MayTake(now time.Time) bool { return !now.Before(t.claimed) }

// lasts reports whether a right to write has not ended. It has when either clock says so: the
// monotonic one cannot be set, but stops while a machine sleeps.
func lasts(until, now time.Time) bool {
	return now.Before(until) && now.Round(0).Before(until.Round(0))
}
