// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/clusters/store"
	"tributary.dev/tributary/syncer"
)

// kind joins stream, table and asking of one kind of object: what is seen, gone and missing
// (T2) is the same for all four.
type kind[T Object] struct {
	kind Kind
	table[T]
	asking *asking
	graves graves
	// waiting is news that waits for another stream.
	waiting map[syncer.Key]arrival[T]
}

// table is what a kind needs of the store, and what is particular to it.
type table[T Object] struct {
	identity func(*T) (key syncer.Key, uid string)
	held     func(syncer.Key) (object *T, revision uint64, ok bool)
	revision func(syncer.Key) (revision uint64, ok bool)
	set      func(store.Versioned[T]) []store.Dirty
	remove   func(syncer.Key) []store.Dirty
	rows     func(namespace string) iter.Seq2[syncer.Key, uint64]

	// covers reports whether objects of a namespace are taken in at all.
	covers func(namespace string) bool
	// asked reports whether an object that a list lacks is asked for; all others just go.
	asked func(key syncer.Key, object *T) bool
	// waits reports whether news of an object has to wait.
	waits func(key syncer.Key, revision uint64) bool
	// changed is called when an object was taken in, or out; before or after may be nil.
	changed func(key syncer.Key, before, after *T, c *Cause, o *step)
	// describe fills in the cause of a change that was written in a second.
	describe func(c *Cause, before, after *T, written int64)
}

// arrival is an object and how it came to be known.
type arrival[T Object] struct {
	store.Versioned[T]
	from origin
}

// origin is how a change came to be known; an empty event stands for added or modified.
type origin struct {
	event   string
	arrived time.Time
	live    bool
}

// seen takes in an object that a stream shows.
func (k *kind[T]) seen(st *stream, e *Seen[T], o *step) {
	key, uid := k.identity(&e.Object)
	if st == nil || !k.covers(key.Namespace) {
		return
	}
	st.reach(e.Revision)
	open := k.asking.of(k.kind, key) != nil
	switch k.graves.judge(uid, e.Revision) {
	case late:
	case doubt:
		k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
	case news:
		if _, known := k.latest(key); open || known <= e.Revision { // else a read was faster
			k.take(e.Versioned, origin{arrived: e.Arrived, live: true}, o)
		}
	}
}

// latest is the newest that is known of an object.
func (k *kind[T]) latest(key syncer.Key) (object *T, revision uint64) {
	if v, waits := k.waiting[key]; waits {
		return &v.Object, v.Revision
	}
	object, revision, _ = k.held(key)
	return object, revision
}

// take takes an object in, whatever is known of it, and closes its question.
func (k *kind[T]) take(v store.Versioned[T], from origin, o *step) {
	key, uid := k.identity(&v.Object)
	q := k.asking.close(k.kind, key)
	before, _, known := k.held(key)
	if known {
		if _, former := k.identity(before); former != uid {
			k.graves.bury(former, grave{key, v.Revision, o.now})
		}
	}
	if pod, ok := any(&v.Object).(*syncer.Pod); ok && pod.Terminal {
		k.graves.bury(uid, grave{key, v.Revision, o.now})
		k.drop(key, before, q, from, o)
		return
	}
	delete(k.graves, uid)
	if k.waits(key, v.Revision) {
		k.waiting[key] = arrival[T]{v, from}
		return
	}
	delete(k.waiting, key)
	if from.event == "" && known {
		from.event = EventModified
	} else if from.event == "" {
		from.event = EventAdded
	}
	c := k.cause(before, &v.Object, v.Written, from)
	o.dirty(k.set(v), c)
	o.judge(q, c)
	k.changed(key, before, &v.Object, c, o)
}

// drop takes an object out that is gone; before is nil if it is in no table.
func (k *kind[T]) drop(key syncer.Key, before *T, q *question, from origin, o *step) {
	delete(k.waiting, key)
	if from.event == "" {
		from.event = EventDeleted
	}
	c := k.cause(before, nil, 0, from)
	c.Key = key
	if before != nil {
		o.dirty(k.remove(key), c)
	}
	o.judge(q, c)
	k.changed(key, before, nil, c, o)
}

func (k *kind[T]) cause(before, after *T, written int64, from origin) *Cause {
	c := &Cause{Kind: k.kind.String(), Event: from.event, Arrived: from.arrived, Live: from.live}
	if of := cmpOr(after, before); of != nil {
		c.Key, c.UID = k.identity(of)
	}
	k.describe(c, before, after, written)
	return c
}

// gone takes out an object that a stream shows to be gone (T2), unless another of its name
// has come since.
func (k *kind[T]) gone(st *stream, e *Gone, o *step) {
	if st == nil || !k.covers(e.Key.Namespace) {
		return
	}
	st.reach(e.Revision)
	k.graves.bury(e.UID, grave{e.Key, e.Revision, o.now})
	if latest, revision := k.latest(e.Key); latest != nil && revision > e.Revision {
		if _, uid := k.identity(latest); uid != e.UID {
			return
		}
	}
	before, _, _ := k.held(e.Key)
	k.drop(e.Key, before, k.asking.close(k.kind, e.Key), origin{EventDeleted, e.Arrived, true}, o)
}

// listed takes in a complete list: what it shows replaces what is not newer than the list, what
// it lacks is missing. anew: also what has the same revision. It returns the questions about
// what is missing.
func (k *kind[T]) listed(st *stream, e *Listed[T], anew bool, o *step) []*question {
	if st == nil {
		return nil
	}
	o.Bulk = true
	floor := e.Revision
	if st.reread = st.reread || floor < st.floor; st.reread {
		anew, floor = true, math.MaxUint64
		clear(k.graves)
	}
	from := origin{event: EventListed, arrived: o.now}
	shown := make(map[syncer.Key]bool, len(e.Items))
	for i := range e.Items {
		v := &e.Items[i]
		key, uid := k.identity(&v.Object)
		if !k.covers(key.Namespace) {
			continue
		}
		verdict := k.graves.judge(uid, e.Revision)
		shown[key] = verdict != late
		known, _ := k.revision(key)
		known = max(known, k.waiting[key].Revision)
		switch {
		case verdict == doubt:
			k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
		case verdict == news && (k.asking.of(k.kind, key) != nil || known <= floor && (known != v.Revision || anew)):
			k.take(*v, from, o)
		}
	}
	*st = stream{phase: Following, listed: true, at: max(st.at, e.Revision)}
	return k.miss(k.missing(e.Scope, shown, floor), from, o)
}

// missing returns the objects of a scope that a list lacks, sorted.
func (k *kind[T]) missing(scope Scope, shown map[syncer.Key]bool, floor uint64) (keys []syncer.Key) {
	lacks := func(key syncer.Key, revision uint64) bool {
		return !shown[key] && revision <= floor && scope.covers(key)
	}
	for key, revision := range k.rows(scope.Namespace) {
		if lacks(key, revision) {
			keys = append(keys, key)
		}
	}
	for key, v := range k.waiting {
		if _, known := k.revision(key); !known && lacks(key, v.Revision) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, syncer.Key.Compare)
	return keys
}

// miss asks for what a list lacks, or lets it go.
func (k *kind[T]) miss(keys []syncer.Key, from origin, o *step) (asked []*question) {
	for _, key := range keys {
		delete(k.waiting, key)
		object, _, known := k.held(key)
		if known && k.asking.of(k.kind, key) == nil && !k.asked(key, object) {
			k.drop(key, object, nil, from, o)
			continue
		}
		q := Question{Kind: k.kind, Key: key}
		if known {
			_, q.UID = k.identity(object)
		}
		asked = append(asked, k.asking.begin(q, o))
	}
	return asked
}

// answered takes in what a read says of an object: it is newer than all that is known, and
// that is at least what the stream has reached.
func (k *kind[T]) answered(at uint64, a *Answer, o *step) {
	from := origin{event: EventListed, arrived: o.now}
	if v, there := a.Object.(store.Versioned[T]); there {
		if _, uid := k.identity(&v.Object); uid != a.UID {
			k.graves.bury(a.UID, grave{a.Key, max(at, v.Revision), o.now})
		}
		k.take(v, from, o)
		return
	}
	_, known := k.latest(a.Key)
	k.graves.bury(a.UID, grave{a.Key, max(at, known), o.now})
	before, _, _ := k.held(a.Key)
	from.event = EventMissing
	k.drop(a.Key, before, k.asking.close(k.kind, a.Key), from, o)
}

// forget takes out what is covered as if it had never been read. What is gone is asked for if
// anything shows it again, at whatever revision.
func (k *kind[T]) forget(covers func(syncer.Key) bool) {
	for _, key := range slices.Collect(keysOf(k.rows(""))) {
		if covers(key) {
			k.remove(key)
		}
	}
	maps.DeleteFunc(k.waiting, func(key syncer.Key, _ arrival[T]) bool { return covers(key) })
	for uid, dead := range k.graves {
		if covers(dead.key) {
			dead.revision = 0
			k.graves[uid] = dead
		}
	}
}

func (k *kind[T]) sweep(now time.Time, stands func(syncer.Key) bool) { k.graves.sweep(now, stands) }

func keysOf(rows iter.Seq2[syncer.Key, uint64]) iter.Seq[syncer.Key] {
	return func(yield func(syncer.Key) bool) {
		for key := range rows {
			if !yield(key) {
				return
			}
		}
	}
}

// cmpOr is the first of two that is not nil.
func cmpOr[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
