// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"time"

	"tributary.dev/tributary/metrics"
	"tributary.dev/tributary/reconcile/lanes"
	"tributary.dev/tributary/reconcile/plan"
)

// ownWrite is the memory of our requests about one object, from before the first
// is sent until our own watch has shown the outcome of the last. It answers two
// questions about a watch event: is it the echo of our write (then it is no
// reason to work, however early it comes: often before the answer), and is it
// older than what we know (then it must not bring the older state back, see
// kubernetes#125638).
type ownWrite struct {
	// inflight is true between begin and finish.
	inflight bool
	// owed are the versions that we made and our watch has not shown, ascending.
	// While there are any, an event below the last is old.
	owed []uint64
	// gone is the UID of an object that we know not to exist any more, until our
	// watch has shown that, and goneAt its last known version: whatever has that
	// version or an older one is of the past too.
	gone   string
	goneAt uint64
	// sightings are versions that our watch showed while the request was in
	// flight, and vanished is the UID it showed as deleted.
	sightings  []sighting
	vanished   string
	vanishedAt time.Time
}

// settled reports whether there is nothing left to remember.
func (w *ownWrite) settled() bool { return !w.inflight && len(w.owed) == 0 && w.gone == "" }

// echo is a version written by us that our watch has shown.
type echo struct {
	ref metrics.Ref
	at  time.Time
}

// sighting is a version of an object as our watch showed it.
type sighting struct {
	rv uint64
	at time.Time
}

// maxSightings bounds what one request remembers (the first and the highest
// version are what matters), maxOwed how many echoes one object may owe.
const (
	maxSightings = 4
	maxOwed      = 4
)

func (w *ownWrite) sight(s sighting) {
	if len(w.sightings) < maxSightings {
		w.sightings = append(w.sightings, s)
		return
	}
	if last := &w.sightings[maxSightings-1]; s.rv > last.rv {
		*last = s
	}
}

func (w *ownWrite) owe(rv uint64) {
	if len(w.owed) == maxOwed {
		w.owed = w.owed[1:]
	}
	w.owed = append(w.owed, rv)
}

// begin announces a request about an object: until finish, events about it are
// taken in but cause no work.
func (v *view) begin(id objectID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.writes[id]
	if w == nil {
		w = &ownWrite{}
		v.writes[id] = w
	}
	w.inflight, w.sightings, w.vanished = true, nil, ""
}

// outcome is what is known about an object after a request of ours.
type outcome struct {
	// object as the answer showed it; nil: unknown, or gone.
	object *found
	// gone is the object that our deletion ended.
	gone *found
	// absent: a read found nothing of that name; before is what we knew when it
	// was sent.
	absent bool
	before *found
	// wrote: the object is the work of our request, and our watch will show it.
	wrote bool
}

// finish ends a request: the answer enters the view unless the watch has shown
// something newer.
func (v *view) finish(id objectID, o outcome) {
	now := time.Now()
	var n news
	v.mu.Lock()
	w := v.writes[id]
	if w == nil { // forgotten by distrust meanwhile
		w = &ownWrite{}
		v.writes[id] = w
	}
	w.inflight = false
	switch {
	case o.object != nil:
		v.lockedFinishObject(&n, w, o, now)
	case o.absent && v.entries[id] == o.before: // else the watch knows more than the read
		v.lockedFinishGone(&n, w, o, o.before, now)
	case o.gone != nil:
		v.lockedFinishGone(&n, w, o, o.gone, now)
	}
	v.lockedSettle(id, w)
	v.mu.Unlock()
	v.tell(&n)
}

func (v *view) lockedSettle(id objectID, w *ownWrite) {
	if w.settled() {
		delete(v.writes, id)
	}
}

func (v *view) lockedFinishObject(n *news, w *ownWrite, o outcome, now time.Time) {
	f := o.object
	if w.vanished == f.uid { // made, and already deleted by somebody else
		n.add(f, nil, now, lanes.Addition)
		n.echo(f.id, f.rv, w.vanishedAt)
		return
	}
	w.gone = "" // another object has the name, or this one waits for its finalizers
	v.lockedPut(f)
	if current := v.entries[f.id]; current.rv > f.rv { // changed again by somebody else
		n.add(f, current, now, lanes.Addition)
	}
	if !o.wrote {
		return
	}
	if i := slices.IndexFunc(w.sightings, func(s sighting) bool { return s.rv >= f.rv }); i >= 0 {
		n.echo(f.id, f.rv, w.sightings[i].at)
		return
	}
	w.owe(f.rv)
}

func (v *view) lockedFinishGone(n *news, w *ownWrite, o outcome, gone *found, now time.Time) {
	if gone == nil {
		return
	}
	id := gone.id
	switch old := v.entries[id]; {
	case old == nil:
	case old.uid != gone.uid: // made anew by somebody else
		n.add(gone, old, now, lanes.Addition)
		return
	case old.deleting && !o.absent: // the deletion was taken, but finalizers keep the object
		return
	default:
		v.lockedDrop(old)
	}
	if w.vanished != gone.uid {
		w.gone, w.goneAt = gone.uid, gone.rv
	}
}

// lockedBuried reports that an event shows an object which we know to be gone,
// or one that was there before it. An object that is being deleted is different:
// it stands until its finalizers are done.
func (v *view) lockedBuried(f *found) bool {
	w := v.writes[f.id]
	if w == nil || w.gone == "" {
		return false
	}
	return w.gone == f.uid && !f.deleting || f.rv != 0 && f.rv <= w.goneAt
}

// lockedSighted tells own writes about an event of our watch; ours is true when
// the event is no news.
func (v *view) lockedSighted(n *news, f *found, at time.Time, buried bool) (ours bool) {
	w := v.writes[f.id]
	if w == nil {
		return false
	}
	last := uint64(0)
	if len(w.owed) > 0 {
		last = w.owed[len(w.owed)-1]
	}
	w.shown(n, f.id, f.rv, at)
	if buried {
		return true
	}
	w.gone = ""
	if w.inflight {
		w.sight(sighting{f.rv, at})
		return true
	}
	v.lockedSettle(f.id, w)
	return f.rv != 0 && f.rv <= last
}

// shown pays the echoes owed up to a version, 0 for all.
func (w *ownWrite) shown(n *news, id objectID, rv uint64, at time.Time) {
	for len(w.owed) > 0 && (rv == 0 || w.owed[0] <= rv) {
		n.echoes = append(n.echoes, echo{refOf(&found{id: id, rv: w.owed[0]}), at})
		w.owed = w.owed[1:]
	}
}

// lockedSightedGone is lockedSighted for a deletion.
func (v *view) lockedSightedGone(n *news, id objectID, uid string, at time.Time) (ours bool) {
	w := v.writes[id]
	if w == nil {
		return false
	}
	if standing := v.entries[id]; w.gone == uid || standing != nil && standing.uid == uid {
		w.shown(n, id, 0, at) // if only in their last state
	}
	ours = w.inflight || w.gone == uid
	if w.inflight {
		w.vanished, w.vanishedAt = uid, at
	}
	if w.gone == uid {
		w.gone = ""
	}
	v.lockedSettle(id, w)
	return ours
}

// lockedListed settles own writes by a list of the kind as of version rv.
func (v *view) lockedListed(n *news, kind plan.Kind, present map[objectID]bool, rv uint64, at time.Time) {
	for id, w := range v.writes {
		if id.kind != kind || w.inflight || present[id] {
			continue
		}
		if rv == 0 || w.goneAt <= rv {
			w.gone = ""
		}
		w.shown(n, id, rv, at)
		v.lockedSettle(id, w)
	}
}

// echo notes that our watch has shown what we wrote.
func (n *news) echo(id objectID, rv uint64, at time.Time) {
	n.echoes = append(n.echoes, echo{refOf(&found{id: id, rv: rv}), at})
}
