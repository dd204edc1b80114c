// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"slices"
	"time"
)

// Looks remembers, for one kind of object of one member, what its lists lacked.
// The zero value is ready. It is not safe for concurrent use.
type Looks struct {
	verdict Verdict
	// since is when the verdict was first given, of those given in a row.
	since time.Time
	// held counts the looks with this verdict in a row.
	held int
	// doubted is when a list went back in time; zero once another one confirmed it.
	doubted time.Time
	taken   []taken
}

// taken is what a list took at a moment.
type taken struct {
	at   time.Time
	lost int
}

// Decision is what to do with a list.
type Decision struct {
	Verdict Verdict
	// Confirmed goes with Confirm: what an earlier list lacked as well may go. What
	// only this one lacks stays.
	Confirmed bool
	// Again is when another list is needed; zero when none is.
	Again time.Time
}

// againLimit bounds the time between two looks at a list that is not believed.
const againLimit = time.Minute

// Doubt is asked about each list first; older says that its revision is below one
// seen before, as after an etcd was restored from a backup. Nothing of a doubted
// list is to be taken in, and Look is not to be asked: what it lacks stays as it
// is, what it shows stays as it was, what it alone knows is left out. Another list
// is needed then, at again, and is doubted as well if it comes earlier.
func (k *Looks) Doubt(now time.Time, l Limits, older bool) (again time.Time, doubted bool) {
	if !l.Lists || !older && (k.doubted.IsZero() || now.Sub(k.doubted) >= l.ConfirmAfter) {
		k.doubted = time.Time{}
		return time.Time{}, false
	}
	if older {
		k.doubted = now
	}
	k.enter(Confirm, now)
	return k.doubted.Add(l.ConfirmAfter), true
}

// Look decides about a list that was read at now and is not doubted. It fills in
// loss.Recent itself.
func (k *Looks) Look(now time.Time, l Limits, loss Loss) Decision {
	loss.Recent = k.recent(now)
	d := Decision{Verdict: l.Judge(loss)}
	if d.Verdict == Pass {
		k.take(now, loss.Lost)
		k.Clear()
		return d
	}
	k.enter(d.Verdict, now)
	switch {
	case d.Verdict == Confirm && now.Sub(k.since) >= l.ConfirmAfter:
		d.Confirmed = true
		k.take(now, loss.Lost)
		k.since = now // for what only this list lacks
		d.Again = now.Add(l.ConfirmAfter)
	case d.Verdict == Confirm:
		d.Again = k.since.Add(l.ConfirmAfter)
	default:
		d.Again = now.Add(min(l.ConfirmAfter<<min(k.held-1, 10), max(againLimit, l.ConfirmAfter)))
	}
	return d
}

// enter notes a verdict other than Pass.
func (k *Looks) enter(v Verdict, now time.Time) {
	if k.verdict != v {
		k.verdict, k.since, k.held = v, now, 0
	}
	k.held++
}

// Clear forgets what was held: all of it has been seen again, or has gone.
func (k *Looks) Clear() { k.verdict, k.since, k.held = Pass, time.Time{}, 0 }

// Doubted reports whether the member went back in time and no second list has
// confirmed it.
func (k *Looks) Doubted() bool { return !k.doubted.IsZero() }

// Trust ends the doubt about a member that went back in time.
func (k *Looks) Trust() { k.doubted = time.Time{} }

// Verdict is the last one.
func (k *Looks) Verdict() Verdict { return k.verdict }

func (k *Looks) take(now time.Time, lost int) {
	if lost > 0 {
		k.taken = append(k.taken, taken{now, lost})
	}
}

// recent sums up what lists took within Window.
func (k *Looks) recent(now time.Time) (lost int) {
	k.taken = slices.DeleteFunc(k.taken, func(t taken) bool { return now.Sub(t.at) >= Window })
	for _, t := range k.taken {
		lost += t.lost
	}
	return lost
}
