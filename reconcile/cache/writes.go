// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"time"

	"tributary.dev/tributary/metrics/record"
	"tributary.dev/tributary/reconcile/lanes"
)

// pendingWrite is the memory of our requests about one object, from before the first
// is sent until our own watch has shown the outcome of the last. It answers two
// questions about a watch event: does it show our own write (then it is no
// reason to work, however early it comes: often before the answer), and is it
// older than what we know (then it must not bring the older state back, see
// kubernetes#125638).
type pendingWrite struct {
	// inflight is true between begin and finish.
	inflight bool
	// expected are the versions that we made and our watch has not shown, ascending.
	// While there are any, an event below the last is old.
	expected []uint64
	// deleted is the UID of an object that we know not to exist any more, until our
	// watch has shown that, and goneAt its last known version: whatever has that
	// version or an older one is of the past too.
	deleted   string
	deletedAt uint64
	// sightings are versions that our watch showed while the request was in
	// flight, and vanished is the UID it showed as deleted.
	sightings     []sighting
	seenDeleted   string
	seenDeletedAt time.Time
}

// settled reports whether there is nothing left to remember.
func (w *pendingWrite) settled() bool { return !w.inflight && len(w.expected) == 0 && w.deleted == "" }

// confirmation is a version written by us that our watch has shown.
type confirmation struct {
	ref record.Ref
	at  time.Time
}

// sighting is a version of an object as our watch showed it.
type sighting struct {
	rv uint64
	at time.Time
}

// maxSightings bounds what one request remembers (the first and the highest
// version are what matters), maxExpected how many of our writes one object waits for.
const (
	maxSightings = 4
	maxExpected  = 4
)

func (w *pendingWrite) sight(s sighting) {
	if len(w.sightings) < maxSightings {
		w.sightings = append(w.sightings, s)
		return
	}
	if last := &w.sightings[maxSightings-1]; s.rv > last.rv {
		*last = s
	}
}

func (w *pendingWrite) expect(rv uint64) {
	if len(w.expected) == maxExpected {
		w.expected = w.expected[1:]
	}
	w.expected = append(w.expected, rv)
}

// Unshown counts the objects of which our own watch has not shown our last write.
func (c *Cache) Unshown() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.writes)
}

// Begin announces a request about an object: until finish, events about it are
// taken in but cause no work.
func (c *Cache) Begin(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.writes[id]
	if w == nil {
		w = &pendingWrite{}
		c.writes[id] = w
	}
	w.inflight, w.sightings, w.seenDeleted = true, nil, ""
}

// Outcome is what is known about an object after a request of ours.
type Outcome struct {
	// Object as the answer showed it; nil: unknown, or gone.
	Object *Object
	// Gone is the object that our deletion ended.
	Gone *Object
	// absent: a read found nothing of that name; before is what we knew when it
	// was sent.
	Absent bool
	Before *Object
	// Answered: the object is the answer to our write, with what the server made of that.
	Answered bool
	// wrote: the object is the work of our request, and our watch will show it.
	Wrote bool
}

// Finish ends a request: the answer enters the cache unless the watch has shown
// something newer.
func (c *Cache) Finish(id ID, o Outcome) {
	now := time.Now()
	var n notifications
	c.mu.Lock()
	w := c.writes[id]
	if w == nil { // forgotten meanwhile: the store went back
		w = &pendingWrite{}
		c.writes[id] = w
	}
	w.inflight = false
	switch {
	case o.Object != nil:
		c.lockedFinishObject(&n, w, o, now)
	case o.Absent && c.entries[id] == o.Before: // else the watch knows more than the read
		c.lockedFinishGone(&n, w, o, o.Before, now)
	case o.Gone != nil:
		c.lockedFinishGone(&n, w, o, o.Gone, now)
	}
	c.lockedSettle(id, w)
	c.mu.Unlock()
	c.deliver(&n)
}

func (c *Cache) lockedSettle(id ID, w *pendingWrite) {
	if w.settled() {
		delete(c.writes, id)
	}
}

func (c *Cache) lockedFinishObject(n *notifications, w *pendingWrite, o Outcome, now time.Time) {
	f := o.Object
	if w.seenDeleted == f.UID { // made, and already deleted by somebody else
		n.add(f, nil, now, lanes.Addition)
		n.confirm(f.ID, f.Revision, w.seenDeletedAt)
		return
	}
	w.deleted = "" // another object has the name, or this one waits for its finalizers
	old := c.entries[f.ID]
	if o.Answered && old != nil && old.Revision == f.Revision && old.meta() != nil && !old.meta().Mutations.Equal(&f.meta().Mutations) {
		c.lockedDrop(old) // a watch does not tell what was wished
	}
	if c.lockedPut(f) {
		c.lockedObserve(f, false)
		if f.Rival && !o.Wrote { // it was read
			n.add(old, f, now, lanes.Addition)
		}
	}
	if current := c.entries[f.ID]; current.Revision > f.Revision { // changed again by somebody else
		n.add(f, current, now, lanes.Addition)
	}
	if !o.Wrote {
		return
	}
	if i := slices.IndexFunc(w.sightings, func(s sighting) bool { return s.rv >= f.Revision }); i >= 0 {
		n.confirm(f.ID, f.Revision, w.sightings[i].at)
		return
	}
	w.expect(f.Revision)
}

func (c *Cache) lockedFinishGone(n *notifications, w *pendingWrite, o Outcome, gone *Object, now time.Time) {
	if gone == nil {
		return
	}
	id := gone.ID
	switch old := c.entries[id]; {
	case old == nil:
	case old.UID != gone.UID: // made anew by somebody else
		n.add(gone, old, now, lanes.Addition)
		return
	case old.Deleting && !o.Absent: // the deletion was taken, but finalizers keep the object
		return
	default:
		if c.lockedDrop(old); o.Absent {
			n.add(old, nil, now, lanes.Addition)
		}
	}
	if w.seenDeleted != gone.UID {
		w.deleted, w.deletedAt = gone.UID, gone.Revision
		c.lockedObserve(gone, true)
	}
}

func (c *Cache) lockedObserve(f *Object, gone bool) {
	if c.observe != nil && f.Revision != 0 {
		c.observe(f, gone)
	}
}

// lockedPast reports that an event shows an object which we know to be gone,
// or one that was there before it. An object that is being deleted is different:
// it stands until its finalizers are done.
func (c *Cache) lockedPast(f *Object) bool {
	w := c.writes[f.ID]
	if w == nil || w.deleted == "" {
		return false
	}
	return w.deleted == f.UID && !f.Deleting || f.Revision != 0 && f.Revision <= w.deletedAt
}

// lockedSighted tells own writes about an event of our watch; ours is true when
// the event is no news.
func (c *Cache) lockedSighted(n *notifications, f *Object, at time.Time, deleted bool) (ours bool) {
	w := c.writes[f.ID]
	if w == nil {
		return false
	}
	last := uint64(0)
	if len(w.expected) > 0 {
		last = w.expected[len(w.expected)-1]
	}
	w.shown(n, f.ID, f.Revision, at)
	if deleted {
		return true
	}
	w.deleted = ""
	if w.inflight {
		w.sight(sighting{f.Revision, at})
		return true
	}
	c.lockedSettle(f.ID, w)
	return f.Revision != 0 && f.Revision <= last
}

// shown confirms what was expected up to a version, 0 for all.
func (w *pendingWrite) shown(n *notifications, id ID, rv uint64, at time.Time) {
	for len(w.expected) > 0 && (rv == 0 || w.expected[0] <= rv) {
		n.confirmed = append(n.confirmed, confirmation{RefOf(&Object{ID: id, Revision: w.expected[0]}), at})
		w.expected = w.expected[1:]
	}
}

// lockedSightedGone is lockedSighted for a deletion.
func (c *Cache) lockedSightedGone(n *notifications, id ID, uid string, at time.Time) (ours bool) {
	w := c.writes[id]
	if w == nil {
		return false
	}
	if standing := c.entries[id]; w.deleted == uid || standing != nil && standing.UID == uid {
		w.shown(n, id, 0, at) // if only in their last state
	}
	ours = w.inflight || w.deleted == uid
	if w.inflight {
		w.seenDeleted, w.seenDeletedAt = uid, at
	}
	if w.deleted == uid {
		w.deleted = ""
	}
	c.lockedSettle(id, w)
	return ours
}

// lockedListed settles own writes by a list as of version rv.
func (c *Cache) lockedListed(n *notifications, s Scope, present map[ID]bool, rv uint64, at time.Time) {
	for id, w := range c.writes {
		if !s.Covers(id) || w.inflight || present[id] {
			continue
		}
		if rv == 0 || w.deletedAt <= rv {
			w.deleted = ""
		}
		w.shown(n, id, rv, at)
		c.lockedSettle(id, w)
	}
}

// confirm notes that our watch has shown what we wrote.
func (n *notifications) confirm(id ID, rv uint64, at time.Time) {
	n.confirmed = append(n.confirmed, confirmation{RefOf(&Object{ID: id, Revision: rv}), at})
}

// RefOf names an object and the version of it that is known.
func RefOf(f *Object) record.Ref {
	return record.Ref{Kind: string(f.ID.Kind), Namespace: f.ID.Namespace, Name: f.ID.Name, ResourceVersion: f.Version()}
}
