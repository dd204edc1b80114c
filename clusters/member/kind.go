// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"tributary.dev/tributary/next/clusters/store"
	"tributary.dev/tributary/next/syncer"
)

// kind joins the streams, the table and the asking of one kind of object: what is seen, gone
// and missing (T2) is the same for all four.
type kind[T Object] struct {
	kind    Kind
	table   table[T]
	streams map[Scope]*stream
	graves  graves
	asking  *asking
	// waiting is news that waits for another stream.
	waiting map[syncer.Key]arrival[T]
}

// arrival is an object and how it came.
type arrival[T Object] struct {
	store.Versioned[T]
	from origin
}

// table is what a kind needs of the store, and of what is particular to it.
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
	// ended reports whether an object counts as gone though it is there.
	ended func(*T) bool
	// waits reports whether news of an object has to wait.
	waits func(key syncer.Key, revision uint64) bool
	// changed is called when a row has changed; before or after may be nil.
	changed func(key syncer.Key, before, after *T, c *Cause, o *step)
	// cause describes the object of a change that was written in a second.
	cause func(before, after *T, written int64) Cause
}

// origin is how a change came to be known.
type origin struct {
	event   string // empty: added or modified
	arrived time.Time
	live    bool
}

// seen takes in an object that a stream shows.
func (k *kind[T]) seen(e *Seen[T], o *step) {
	st := k.streams[e.Scope]
	if st == nil {
		return
	}
	st.reach(e.Revision)
	key, uid := k.table.identity(&e.Object)
	if !k.table.covers(key.Namespace) {
		return
	}
	switch k.graves.judge(uid, e.Revision) {
	case late:
		return
	case doubt:
		k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
		return
	}
	if k.asking.of(k.kind, key) == nil && k.known(key) > e.Revision {
		return // a read has shown a newer one
	}
	k.take(st, e.Versioned, origin{arrived: e.Arrived, live: true}, o)
}

// known is the revision at which an object is known, or its news; 0: it is not.
func (k *kind[T]) known(key syncer.Key) uint64 {
	revision, _ := k.table.revision(key)
	return max(revision, k.waiting[key].Revision)
}

// take takes an object in, whatever is known of it, and closes its question.
func (k *kind[T]) take(st *stream, v store.Versioned[T], from origin, o *step) {
	key, uid := k.table.identity(&v.Object)
	q := k.asking.close(subject{kind: k.kind, key: key})
	before, _, known := k.table.held(key)
	if known {
		if _, former := k.table.identity(before); former != uid {
			k.graves.bury(former, grave{key, v.Revision, st, false, o.now})
		}
	}
	if k.table.ended(&v.Object) {
		k.graves.bury(uid, grave{key, v.Revision, st, false, o.now})
		k.drop(key, before, q, from, o)
		return
	}
	delete(k.graves, uid)
	if k.table.waits(key, v.Revision) {
		k.waiting[key] = arrival[T]{v, from}
		return
	}
	delete(k.waiting, key)
	c := k.cause(before, &v.Object, v.Written, from)
	if from.event == "" {
		c.Event = EventModified
		if !known {
			c.Event = EventAdded
		}
	}
	o.dirty(k.table.set(v), c)
	if q != nil {
		o.touch(q.replicas, c)
	}
	k.table.changed(key, before, &v.Object, c, o)
}

// cause describes a change.
func (k *kind[T]) cause(before, after *T, written int64, from origin) *Cause {
	c := k.table.cause(before, after, written)
	c.Kind, c.Event, c.Arrived, c.Live = k.kind.String(), from.event, from.arrived, from.live
	return &c
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
		o.dirty(k.table.remove(key), c)
	}
	if q != nil {
		c.UID = q.UID
		o.touch(q.replicas, c)
	}
	k.table.changed(key, before, nil, c, o)
}

// gone takes out an object that a stream shows to be gone (T2), unless another of its name
// is there since.
func (k *kind[T]) gone(e *Gone, o *step) {
	st := k.streams[e.Scope]
	if st == nil || !k.table.covers(e.Key.Namespace) {
		return
	}
	st.reach(e.Revision)
	k.graves.bury(e.UID, grave{e.Key, e.Revision, st, false, o.now})
	before, revision, known := k.table.held(e.Key)
	if news, waits := k.waiting[e.Key]; waits {
		if _, uid := k.table.identity(&news.Object); uid != e.UID && news.Revision > e.Revision {
			return
		}
	}
	if known {
		if _, uid := k.table.identity(before); uid != e.UID && revision > e.Revision {
			return
		}
	}
	q := k.asking.close(subject{kind: k.kind, key: e.Key})
	k.drop(e.Key, before, q, origin{EventDeleted, e.Arrived, true}, o)
}

// listed takes in a complete list: what it shows replaces what is not newer, what it lacks is
// missing. It returns the questions that it begins.
func (k *kind[T]) listed(e *Listed[T], rematch bool, o *step) []*question {
	st := k.streams[e.Scope]
	if st == nil {
		return nil
	}
	o.Bulk = true
	floor := e.Revision
	if st.reread || floor < st.floor {
		k.exhume(st)
		floor, st.reread = math.MaxUint64, true
	}
	from := origin{event: EventListed, arrived: o.now}
	shown := make(map[syncer.Key]bool, len(e.Items))
	for i := range e.Items {
		v := &e.Items[i]
		key, uid := k.table.identity(&v.Object)
		if !k.table.covers(key.Namespace) {
			continue
		}
		verdict := k.graves.judge(uid, e.Revision)
		if shown[key] = verdict != late; verdict == doubt {
			k.asking.begin(Question{Kind: k.kind, Key: key, UID: uid}, o)
		}
		if verdict == news && k.replaces(key, v.Revision, floor, st.reread || rematch) {
			k.take(st, *v, from, o)
		}
	}
	missing := k.missing(e.Scope, shown, floor)
	*st = stream{phase: Following, listed: true, at: max(st.at, e.Revision)}
	return k.miss(missing, from, o)
}

// replaces reports whether a list's item says anything that is not known, or replaces it.
func (k *kind[T]) replaces(key syncer.Key, revision, floor uint64, anew bool) bool {
	if k.asking.of(k.kind, key) != nil {
		return true
	}
	known := k.known(key)
	return known <= floor && (known != revision || anew)
}

// missing returns the objects of a scope that a list lacks, sorted.
func (k *kind[T]) missing(scope Scope, shown map[syncer.Key]bool, floor uint64) (keys []syncer.Key) {
	for key, revision := range k.table.rows(scope.Namespace) {
		if !shown[key] && revision <= floor && scope.covers(key) {
			keys = append(keys, key)
		}
	}
	for key, v := range k.waiting {
		if _, known := k.table.revision(key); !known && !shown[key] && v.Revision <= floor && scope.covers(key) {
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
		object, _, known := k.table.held(key)
		if known && k.asking.of(k.kind, key) == nil && !k.table.asked(key, object) {
			k.drop(key, object, nil, from, o)
			continue
		}
		q := Question{Kind: k.kind, Key: key}
		if known {
			_, q.UID = k.table.identity(object)
		}
		asked = append(asked, k.asking.begin(q, o))
	}
	return asked
}

// answered takes in what a read says of an object: it is newer than all that is known.
func (k *kind[T]) answered(a *Answer, o *step) {
	from := origin{event: EventListed, arrived: o.now}
	v, there := a.Object.(store.Versioned[T])
	st := k.over(a.Key)
	if st == nil {
		k.asking.close(subject{kind: k.kind, key: a.Key})
		return
	}
	if there && a.Outcome == There {
		if _, uid := k.table.identity(&v.Object); uid != a.UID {
			k.graves.bury(a.UID, grave{a.Key, max(st.at, v.Revision), st, false, o.now})
		}
		k.take(st, v, from, o)
		return
	}
	k.graves.bury(a.UID, grave{a.Key, max(st.at, k.known(a.Key)), st, true, o.now})
	before, _, _ := k.table.held(a.Key)
	from.event = EventMissing
	k.drop(a.Key, before, k.asking.close(subject{kind: k.kind, key: a.Key}), from, o)
}

// over is the stream that covers an object; nil: none does.
func (k *kind[T]) over(key syncer.Key) *stream {
	for scope, st := range k.streams {
		if scope.covers(key) {
			return st
		}
	}
	return nil
}

// anyKind is what all kinds have that needs no type.
type anyKind interface {
	stream(Scope) *stream
	scopes() []Scope
	want(map[Scope]bool) (changed bool)
	follows() bool
	gone(*Gone, *step)
	answered(*Answer, *step)
	forget(covers func(syncer.Key) bool)
	exhume(*stream)
	doubt(covers func(syncer.Key) bool)
	sweep(now time.Time, stands func(syncer.Key) bool)
}

func (k *kind[T]) stream(scope Scope) *stream { return k.streams[scope] }

func (k *kind[T]) scopes() []Scope { return slices.Collect(maps.Keys(k.streams)) }

// want makes the streams of the kind those that are wanted.
func (k *kind[T]) want(wanted map[Scope]bool) (changed bool) {
	for scope := range wanted {
		if scope.Kind == k.kind && k.streams[scope] == nil {
			k.streams[scope], changed = &stream{}, true
		}
	}
	for scope := range k.streams {
		if !wanted[scope] {
			k.exhume(k.streams[scope])
			delete(k.streams, scope)
			changed = true
		}
	}
	return changed
}

func (k *kind[T]) follows() bool {
	for _, st := range k.streams {
		if st.phase == Following {
			return true
		}
	}
	return false
}

// forget takes out what is covered as if it had never been read. What is gone stays so.
func (k *kind[T]) forget(covers func(syncer.Key) bool) {
	var keys []syncer.Key
	for key := range k.table.rows("") {
		if covers(key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		k.table.remove(key)
	}
	maps.DeleteFunc(k.waiting, func(key syncer.Key, _ arrival[T]) bool { return covers(key) })
}

// exhume forgets what was seen to go in a stream whose store went back.
func (k *kind[T]) exhume(st *stream) {
	maps.DeleteFunc(k.graves, func(_ string, dead grave) bool { return dead.stream == st })
}

// doubt has what is gone asked for if anything shows it: whatever its revision, for those that
// come now may be of another store.
func (k *kind[T]) doubt(covers func(syncer.Key) bool) {
	for uid, dead := range k.graves {
		if covers(dead.key) {
			dead.revision, dead.answered = 0, true
			k.graves[uid] = dead
		}
	}
}

func (k *kind[T]) sweep(now time.Time, stands func(syncer.Key) bool) { k.graves.sweep(now, stands) }
